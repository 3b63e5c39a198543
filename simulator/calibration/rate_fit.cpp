#include "simulator/calibration/rate_fit.hpp"

#include <algorithm>
#include <cmath>
#include <functional>
#include <map>

#include "runtime/core/error.hpp"
#include "simulator/calibration/compute_prices.hpp"
#include "simulator/calibration/least_squares.hpp"
#include "simulator/costs/costs.hpp"

namespace oomb::simulator {
namespace {

using schedule::CopyCost;
using schedule::Engine;

// 1 to 4 as below; 0: no copy between the tiers.
std::size_t rate_of_copy(const ShapeTime& shape) {
    if (shape.engine != Engine::kHostToDevice && shape.engine != Engine::kDeviceToHost) {
        return 0;
    }
    return 1 + (shape.engine == Engine::kDeviceToHost ? 2 : 0) + (shape.both ? 1 : 0);
}

// start, then seconds per byte: to the device alone, beside the other direction, to the host alone, beside.
constexpr std::size_t kCopyPrices = 5;

std::vector<double> copy_prices(const std::vector<RecordedRun>& runs) {
    std::vector<Equation> equations;
    for (const RecordedRun& run : runs) {
        for (const ShapeTime& shape : run.shapes) {
            if (const std::size_t rate = rate_of_copy(shape); rate > 0) {
                Equation equation{std::vector<double>(kCopyPrices, 0.0), 1.0, static_cast<double>(shape.count)};
                equation.coefficients[0] = 1 / shape.seconds;
                equation.coefficients[rate] = static_cast<double>(std::get<CopyCost>(shape.cost).bytes) / shape.seconds;
                equations.push_back(std::move(equation));
            }
        }
    }
    return equations.empty() ? std::vector<double>(kCopyPrices, 0.0)
                             : non_negative_least_squares(equations, kCopyPrices);
}

// How far a price's readings are from what all prices together give.
struct Spread {
    std::int64_t shapes = 0;
    double median = 0.0, largest = 0.0;
};

Spread spread_of(std::vector<double> errors) {
    std::ranges::sort(errors);
    return {std::ssize(errors), errors.empty() ? 0.0 : errors[errors.size() / 2], errors.empty() ? 0.0 : errors.back()};
}

std::string text_of(const std::string& source, const Spread& spread) {
    return fmt::format("{}; {} shapes, off by {:.1f} % (median), {:.1f} % (most)", source, spread.shapes,
                       100 * spread.median, 100 * spread.largest);
}

// Readings of which a price makes at least a fifth.
Spread spread_of(const std::vector<Reading>& readings, const Prices& prices, Unknown unknown) {
    constexpr double kShare = 0.2;
    std::vector<double> errors;
    for (const Reading& reading : readings) {
        const std::vector<Term> terms = terms_of(reading.parts, prices);
        const double whole = sum_of(terms, prices);
        for (const Term& term : terms) {
            if (term.unknown == unknown && term.amount * prices.at(unknown) >= kShare * whole) {
                errors.push_back(std::abs(whole / reading.seconds - 1));
            }
        }
    }
    return spread_of(std::move(errors));
}

class Writer {
  public:
    Writer(RateFit& fit, const std::vector<Reading>& readings, const Prices& prices, const std::string& source)
        : fit_(fit), readings_(readings), prices_(prices), source_(source) {}

    void rate(const std::string& key, Part part, SourcedRate& into) {
        const auto found = prices_.find(unknown_of(part));
        if (found != prices_.end() && found->second > 0) {
            into = {1 / found->second, text(found->first)};
        } else {
            fit_.kept.push_back(key);
        }
    }
    void duration(const std::string& key, Part part, SourcedSeconds& into) {
        if (const auto found = prices_.find(unknown_of(part)); found != prices_.end()) {
            into = {found->second, text(found->first)};
        } else {
            fit_.kept.push_back(key);
        }
    }
    // By head size, 0 for products. Those of the base that no run shows are kept.
    std::map<std::int64_t, TileRate> tiles(const std::string& key, TileKernel kernel,
                                           const std::map<std::int64_t, TileRate>& base) {
        std::map<std::int64_t, TileRate> rates;
        for (const auto& [unknown, value] : prices_) {
            if (unknown == flops_of(kernel, unknown.head_dim) && value > 0) {
                const auto wave = prices_.find(waves_of(kernel, unknown.head_dim));
                rates[unknown.head_dim] = {1 / value, wave == prices_.end() ? 0.0 : wave->second, text(unknown)};
            }
        }
        if (rates.empty()) {
            fit_.kept.push_back(key);
            return base;
        }
        for (const auto& [head_dim, rate] : base) {
            if (rates.emplace(head_dim, rate).second) {
                fit_.kept.push_back(fmt::format("{}, head size {}", key, head_dim));
            }
        }
        return rates;
    }

  private:
    std::string text(Unknown unknown) const { return text_of(source_, spread_of(readings_, prices_, unknown)); }

    RateFit& fit_;
    const std::vector<Reading>& readings_;
    const Prices& prices_;
    const std::string& source_;
};

void write_compute(RateFit& fit, const std::vector<Reading>& readings, const Prices& prices, DType dtype,
                   const std::string& source) {
    HardwareProfile& profile = fit.profile;
    Writer writer(fit, readings, prices, source);
    writer.duration("launch", Part::kLaunch, profile.launch);
    if (const auto products = writer.tiles("gemm", TileKernel::kGemm, {}); !products.empty()) {
        profile.gemm_flops[dtype] = products.at(0);
    }
    writer.rate("gemm_sum", Part::kGemmSumByte, profile.gemm_sum_bytes);
    writer.rate("hbm_copy", Part::kHbmCopyByte, profile.hbm_copy_bytes);
    writer.rate("hbm_read", Part::kHbmReadByte, profile.hbm_read_bytes);
    writer.rate("hbm_write", Part::kHbmWriteByte, profile.hbm_write_bytes);
    for (std::size_t i = 0; i < kPasses.size(); ++i) {
        const auto part = static_cast<Part>(static_cast<std::size_t>(Part::kPassByte) + i);
        SourcedRate measured;
        writer.rate(fmt::format("passes.{}", kPasses[i]), part, measured);
        if (measured.per_second > 0) {
            profile.pass_bytes[std::string(kPasses[i])] = measured;
        }
    }
    for (const AttentionKey& key : kAttentionKeys) {
        const HeadRates& all = profile.*key.rates;
        const auto base = all.find(dtype);
        auto rates = writer.tiles(key.key, key.kernel, base == all.end() ? HeadRates::mapped_type() : base->second);
        if (!rates.empty()) {
            (profile.*key.rates)[dtype] = std::move(rates);
        }
    }
}

void write_copies(RateFit& fit, const std::vector<RecordedRun>& runs, const std::string& source) {
    const std::vector<double> prices = copy_prices(runs);
    HardwareProfile& profile = fit.profile;
    const std::pair<const char*, SourcedRate*> rates[] = {{"host_to_device", &profile.host_to_device_bytes},
                                                          {"host_to_device_both", &profile.host_to_device_both_bytes},
                                                          {"device_to_host", &profile.device_to_host_bytes},
                                                          {"device_to_host_both", &profile.device_to_host_both_bytes}};
    for (std::size_t i = 0; i < std::size(rates); ++i) {
        std::vector<double> errors;
        for (const RecordedRun& run : runs) {
            for (const ShapeTime& shape : run.shapes) {
                if (rate_of_copy(shape) == i + 1) {
                    const double bytes = static_cast<double>(std::get<CopyCost>(shape.cost).bytes);
                    errors.push_back(std::abs((prices[0] + prices[i + 1] * bytes) / shape.seconds - 1));
                }
            }
        }
        if (prices[i + 1] > 0) {
            *rates[i].second = {1 / prices[i + 1], text_of(source, spread_of(std::move(errors)))};
        } else if (i % 2 == 1 && prices[i] > 0) {
            *rates[i].second = {rates[i - 1].second->per_second, source + "; never in company: as alone"};
        } else {
            fit.kept.emplace_back(rates[i].first);
        }
    }
    if (std::ranges::any_of(prices, [](double price) { return price > 0; })) {
        profile.copy_start = {prices[0], source + "; of all copies together"};
    } else {
        fit.kept.emplace_back("copy_start");
    }
}

// Where operations take uneven times, what one of them does to memory beside its main work can vanish in that.
void fill_memory_rates(HardwareProfile& profile) {
    for (SourcedRate* rate : {&profile.gemm_sum_bytes, &profile.hbm_read_bytes, &profile.hbm_write_bytes}) {
        if (!(rate->per_second > 0)) {
            *rate = {profile.hbm_copy_bytes.per_second,
                     profile.hbm_copy_bytes.source + "; not told apart: as hbm_copy"};
        }
    }
}

// A base that was not measured has no numbers to keep.
void require_rates(const HardwareProfile& profile) {
    const std::pair<const char*, const SourcedRate*> rates[] = {
        {"gemm_sum", &profile.gemm_sum_bytes},
        {"hbm_copy", &profile.hbm_copy_bytes},
        {"hbm_read", &profile.hbm_read_bytes},
        {"hbm_write", &profile.hbm_write_bytes},
        {"host_to_device", &profile.host_to_device_bytes},
        {"host_to_device_both", &profile.host_to_device_both_bytes},
        {"device_to_host", &profile.device_to_host_bytes},
        {"device_to_host_both", &profile.device_to_host_both_bytes}};
    for (const auto& [key, rate] : rates) {
        if (!(rate->per_second > 0)) {
            fail<FileError>(
                "{}: no step shows it, and the base has no number to keep; add a trace of a run that depends on it, "
                "or give a profile that has it as --base",
                key);
        }
    }
}

std::vector<FitError> errors_of(const std::vector<RecordedRun>& runs, const HardwareProfile& profile) {
    std::map<std::string, FitError> errors;
    std::map<std::string, double> predicted;
    for (const RecordedRun& run : runs) {
        const Costs costs(run.run, profile);
        const double stamps = stamp_seconds(run);
        for (const ShapeTime& shape : run.shapes) {
            const bool copies = rate_of_copy(shape) > 0;
            const double measured = seconds_of(shape) - (copies ? 0.0 : stamps);
            if (measured <= 0 || shape.kind == schedule::Kind::kRelease) {
                continue;
            }
            const double found =
                copies ? costs.copy_seconds(shape.engine, std::get<CopyCost>(shape.cost).bytes, shape.both)
                       : costs.compute_seconds(operation_of(shape));
            const std::string name(name_of(shape.kind));
            FitError& error = errors[name];
            error.kind = name;
            ++error.shapes;
            error.seconds += measured * static_cast<double>(shape.count);
            predicted[name] += found * static_cast<double>(shape.count);
            error.largest = std::max(error.largest, std::abs(found / measured - 1));
        }
    }
    std::vector<FitError> sorted;
    for (auto& [name, error] : errors) {
        error.error = predicted[name] / error.seconds - 1;
        sorted.push_back(error);
    }
    std::ranges::stable_sort(sorted, std::greater<>(), &FitError::seconds);
    return sorted;
}

}  // namespace

RateFit fit_rates(const std::vector<RecordedRun>& runs, const HardwareProfile& base, const std::string& source) {
    require(!runs.empty(), "nothing to fit rates to");
    const DType dtype = runs.front().run.compute;
    for (const RecordedRun& run : runs) {
        if (run.run.compute != dtype) {
            fail<FileError>("traces of runs in {} and {}: a profile is fitted to one type at a time", name_of(dtype),
                            name_of(run.run.compute));
        }
    }
    RateFit fit;
    fit.profile = base;
    const std::vector<Reading> readings = compute_readings(runs, base.multiprocessors.count);
    write_compute(fit, readings, compute_prices(readings), dtype, source);
    write_copies(fit, runs, source);
    fill_memory_rates(fit.profile);
    require_rates(fit.profile);
    fit.errors = errors_of(runs, fit.profile);
    return fit;
}

}  // namespace oomb::simulator
