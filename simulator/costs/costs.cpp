#include "simulator/costs/costs.hpp"

#include <algorithm>
#include <limits>

#include "runtime/core/error.hpp"

namespace oomb::simulator {

using schedule::Engine;

namespace {

constexpr std::size_t index_of(Part part) {
    return static_cast<std::size_t>(part);
}

TilePrice price_of(const TileRate& rate) {
    return {1 / rate.per_second, rate.wave_seconds};
}

}  // namespace

std::optional<std::string> missing_rate(const HardwareProfile& profile, DType dtype, bool deterministic) {
    if (!profile.gemm_flops.contains(dtype)) {
        return fmt::format("gemm.{}", name_of(dtype));
    }
    for (const AttentionKey& key : kAttentionKeys) {
        const bool forward =
            key.kernel == TileKernel::kAttentionForward || key.kernel == TileKernel::kAttentionForwardCausal;
        const bool of_deterministic = key.kernel >= TileKernel::kAttentionBackwardDeterministic;
        if (!is_own(key.kernel) && (forward || of_deterministic == deterministic) &&
            !(profile.*key.rates).contains(dtype)) {
            return fmt::format("{}.{}", key.key, name_of(dtype));
        }
    }
    return std::nullopt;
}

double tile_seconds(const OperationParts& parts, const TilePrice& price) {
    if (parts.tilings.empty()) {
        return 0.0;
    }
    double least = std::numeric_limits<double>::infinity();
    for (const Tiling& tiling : parts.tilings) {
        least = std::min(least, tiling.flops * price.flop + tiling.waves * price.wave);
    }
    return least;
}

Costs::Costs(const RunConfiguration& run, const HardwareProfile& profile)
    : run_(run),
      multiprocessors_(profile.multiprocessors.count),
      copy_{{1 / profile.host_to_device_bytes.per_second, 1 / profile.host_to_device_both_bytes.per_second},
            {1 / profile.device_to_host_bytes.per_second, 1 / profile.device_to_host_both_bytes.per_second}},
      copy_start_(profile.copy_start.seconds),
      submit_(profile.submit.seconds),
      submit_page_(profile.submit_page.seconds) {
    if (const auto missing = missing_rate(profile, run.compute, run.deterministic)) {
        fail<FileError>("hardware profile \"{}\": has no {}, the rate that a run in {}{} needs", profile.name, *missing,
                        name_of(run.compute), run.deterministic ? " with --deterministic" : "");
    }
    prices_[index_of(Part::kLaunch)] = profile.launch.seconds;
    prices_[index_of(Part::kGemmSumByte)] = 1 / profile.gemm_sum_bytes.per_second;
    prices_[index_of(Part::kHbmCopyByte)] = 1 / profile.hbm_copy_bytes.per_second;
    prices_[index_of(Part::kHbmReadByte)] = 1 / profile.hbm_read_bytes.per_second;
    prices_[index_of(Part::kHbmWriteByte)] = 1 / profile.hbm_write_bytes.per_second;
    for (std::size_t i = 0; i < kPasses.size(); ++i) {
        const auto found = profile.pass_bytes.find(kPasses[i]);
        const SourcedRate& rate = found == profile.pass_bytes.end() ? profile.hbm_copy_bytes : found->second;
        prices_[index_of(Part::kPassByte) + i] = 1 / rate.per_second;
    }
    tile_prices_[static_cast<std::size_t>(TileKernel::kGemm)].emplace(0, price_of(profile.gemm_flops.at(run.compute)));
    for (const AttentionKey& key : kAttentionKeys) {
        if (const auto rates = (profile.*key.rates).find(run.compute); rates != (profile.*key.rates).end()) {
            for (const auto& [head_dim, rate] : rates->second) {
                tile_prices_[static_cast<std::size_t>(key.kernel)].emplace(head_dim, price_of(rate));
            }
        }
    }
}

TilePrice Costs::tile_price(TileKernel kernel, std::int64_t head_dim) const {
    const auto& prices = tile_prices_[static_cast<std::size_t>(kernel)];
    if (prices.empty() && is_own(kernel)) {
        return tile_price(library_kernel(kernel), head_dim);
    }
    const auto above = prices.lower_bound(head_dim);
    if (above == prices.end()) {
        return std::prev(above)->second;
    }
    if (above->first == head_dim || above == prices.begin()) {
        return above->second;
    }
    const auto below = std::prev(above);
    const double share =
        static_cast<double>(head_dim - below->first) / static_cast<double>(above->first - below->first);
    const auto between = [&](double low, double high) { return low + share * (high - low); };
    return {between(below->second.flop, above->second.flop), between(below->second.wave, above->second.wave)};
}

double Costs::compute_seconds(const schedule::Operation& operation) const {
    const OperationParts parts = parts_of(operation, run_, multiprocessors_);
    double seconds = 0.0;
    for (const auto& [part, amount] : parts.list) {
        seconds += amount * prices_[index_of(part)];
    }
    if (!parts.tilings.empty()) {
        seconds += tile_seconds(parts, tile_price(parts.kernel, parts.head_dim));
    }
    return std::max(seconds, parts.least_bytes * prices_[index_of(Part::kHbmCopyByte)]);
}

double Costs::submit_seconds(const schedule::Operation& operation, std::int64_t runs) const {
    return operation.engine == Engine::kCompute ? submit_ * launches_of(operation)
                                                : submit_ + submit_page_ * static_cast<double>(runs);
}

double Costs::copy_seconds(Engine engine, std::int64_t bytes, bool both) const {
    require(engine == Engine::kHostToDevice || engine == Engine::kDeviceToHost, "no copy engine: {}", name_of(engine));
    return copy_start_ + static_cast<double>(bytes) * copy_[engine == Engine::kDeviceToHost ? 1 : 0][both ? 1 : 0];
}

}  // namespace oomb::simulator
