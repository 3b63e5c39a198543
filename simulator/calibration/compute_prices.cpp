#include "simulator/calibration/compute_prices.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#include "simulator/calibration/least_squares.hpp"
#include "simulator/costs/costs.hpp"

namespace oomb::simulator {

using schedule::Engine;

namespace {

constexpr double kLeastWeight = 1e-3;  // so that what is short still has a price of its own
constexpr int kRounds = 8;             // how products are cut, and which their bytes bound, depends on the prices

}  // namespace

schedule::Operation operation_of(const ShapeTime& shape) {
    schedule::Operation operation;
    operation.id.kind = shape.kind;
    operation.id.part = shape.part;
    operation.cost = shape.cost;
    operation.rows = shape.rows;
    return operation;
}

double stamp_seconds(const RecordedRun& run) {
    double least = std::numeric_limits<double>::infinity();
    for (const ShapeTime& shape : run.shapes) {
        if (shape.kind == schedule::Kind::kRelease) {
            least = std::min(least, shape.low);
        }
    }
    return std::isfinite(least) ? least : 0.0;
}

double seconds_of(const ShapeTime& shape) {
    constexpr double kWide = 1.0 / 8;
    return shape.high - shape.low > kWide * shape.seconds ? shape.low : shape.seconds;
}

std::vector<Reading> compute_readings(const std::vector<RecordedRun>& runs, std::int64_t multiprocessors) {
    std::vector<Reading> readings;
    for (const RecordedRun& run : runs) {
        const double stamps = stamp_seconds(run);
        double total = 0.0;
        for (const ShapeTime& shape : run.shapes) {
            total += shape.engine == Engine::kCompute ? shape.seconds * static_cast<double>(shape.count) : 0.0;
        }
        for (const ShapeTime& shape : run.shapes) {
            const OperationParts parts = parts_of(operation_of(shape), run.run, multiprocessors);
            const double seconds = seconds_of(shape) - stamps;
            if (shape.engine == Engine::kCompute && seconds > 0 && !parts.list.empty()) {
                const double share = shape.seconds * static_cast<double>(shape.count) / total;
                readings.push_back({parts, seconds, share + kLeastWeight});
            }
        }
    }
    return readings;
}

double sum_of(const std::vector<Term>& terms, const Prices& prices) {
    double seconds = 0.0;
    for (const auto& [unknown, amount] : terms) {
        seconds += amount * prices.at(unknown);
    }
    return seconds;
}

std::vector<Term> terms_of(const OperationParts& parts, const Prices& prices) {
    std::vector<Term> terms;
    for (const auto& [part, amount] : parts.list) {
        terms.push_back({unknown_of(part), amount});
    }
    if (!parts.tilings.empty()) {
        const Unknown flops = flops_of(parts.kernel, parts.head_dim), waves = waves_of(parts.kernel, parts.head_dim);
        const TilePrice price{prices.at(flops), prices.contains(waves) ? prices.at(waves) : 0.0};
        const Tiling* best = std::ranges::min_element(parts.tilings, {}, [&](const Tiling& tiling) {
            return tiling.flops * price.flop + tiling.waves * price.wave;
        });
        terms.push_back({flops, best->flops});
        if (prices.contains(waves)) {
            terms.push_back({waves, best->waves});
        }
    }
    const std::vector<Term> bytes = {{unknown_of(Part::kHbmCopyByte), parts.least_bytes}};
    return sum_of(bytes, prices) > sum_of(terms, prices) ? bytes : terms;
}

namespace {

// The prices that readings depend on, as a first guess by which products are cut: FLOPs alone. Where the waves of a
// kernel all have the same FLOPs (chunks of one length) their two prices cannot be told apart, and FLOPs get all.
Prices first_prices(const std::vector<Reading>& readings) {
    Prices prices = {{unknown_of(Part::kHbmCopyByte), 0.0}};
    std::map<Unknown, std::pair<double, double>> flops_of_wave;  // least and most
    for (const Reading& reading : readings) {
        for (const auto& [part, amount] : reading.parts.list) {
            prices[unknown_of(part)] = 0.0;
        }
        if (!reading.parts.tilings.empty()) {
            prices[flops_of(reading.parts.kernel, reading.parts.head_dim)] = 1.0;
            const double flops = reading.parts.tilings[0].flops / reading.parts.tilings[0].waves;
            const Unknown waves = waves_of(reading.parts.kernel, reading.parts.head_dim);
            auto& [least, most] = flops_of_wave.try_emplace(waves, flops, flops).first->second;
            least = std::min(least, flops);
            most = std::max(most, flops);
        }
    }
    constexpr double kApart = 1.1;
    for (const auto& [waves, range] : flops_of_wave) {
        if (range.second > kApart * range.first) {
            prices[waves] = 0.0;
        }
    }
    return prices;
}

}  // namespace

Prices compute_prices(const std::vector<Reading>& readings) {
    Prices prices = first_prices(readings);
    for (int round = 0; round < kRounds; ++round) {
        std::vector<Equation> equations;
        for (const Reading& reading : readings) {
            const std::vector<Term> terms = terms_of(reading.parts, prices);
            // Relative to the mean of what was read and what the last prices gave: off by twice and by half weigh
            // alike.
            const double last = round > 0 ? sum_of(terms, prices) : 0.0;
            const double unit = last > 0 ? std::sqrt(reading.seconds * last) : reading.seconds;
            Equation equation{std::vector<double>(prices.size(), 0.0), reading.seconds / unit, reading.weight};
            for (const auto& [unknown, amount] : terms) {
                const auto at = static_cast<std::size_t>(std::distance(prices.begin(), prices.find(unknown)));
                equation.coefficients[at] += amount / unit;
            }
            equations.push_back(std::move(equation));
        }
        const std::vector<double> found = non_negative_least_squares(equations, prices.size());
        std::size_t i = 0;
        for (auto& [unknown, value] : prices) {
            value = found[i++];
        }
    }
    return prices;
}

}  // namespace oomb::simulator
