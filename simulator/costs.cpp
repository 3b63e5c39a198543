#include "simulator/costs.hpp"

#include <algorithm>

#include "runtime/core/error.hpp"
#include "runtime/schedule/flops.hpp"

namespace oomb::simulator {

using schedule::AttentionCost;
using schedule::CopyCost;
using schedule::ElementwiseCost;
using schedule::Engine;
using schedule::GemmCost;
using schedule::Kind;

namespace {

double rate_of(const std::map<DType, SourcedRate>& rates, DType dtype) {
    return rates.at(dtype).per_second;
}

}  // namespace

std::optional<std::string> missing_rate(const HardwareProfile& profile, DType dtype) {
    const std::pair<const char*, const std::map<DType, SourcedRate>*> needed[] = {
        {"gemm", &profile.gemm_flops},
        {"attention_forward", &profile.attention_forward_flops},
        {"attention_backward", &profile.attention_backward_flops},
        {"attention_forward_causal", &profile.attention_forward_causal_flops},
        {"attention_backward_causal", &profile.attention_backward_causal_flops}};
    for (const auto& [key, rates] : needed) {
        if (!rates->contains(dtype)) {
            return fmt::format("{}.{}", key, name_of(dtype));
        }
    }
    return std::nullopt;
}

Costs::Costs(const RunConfiguration& run, const HardwareProfile& profile)
    : compute_bytes_(static_cast<double>(bytes_of(run.compute))),
      gradient_bytes_(static_cast<double>(bytes_of(run.gradient_type()))),
      hbm_(profile.hbm_copy_bytes.per_second),
      hbm_read_(profile.hbm_read_bytes.per_second),
      hbm_write_(profile.hbm_write_bytes.per_second),
      copy_{{profile.host_to_device_bytes.per_second, profile.host_to_device_both_bytes.per_second},
            {profile.device_to_host_bytes.per_second, profile.device_to_host_both_bytes.per_second}},
      launch_(profile.launch.seconds) {
    if (const auto missing = missing_rate(profile, run.compute)) {
        fail<FileError>("hardware profile \"{}\": has no {}, the rate that a run in {} needs", profile.name, *missing,
                        name_of(run.compute));
    }
    gemm_ = rate_of(profile.gemm_flops, run.compute);
    attention_[0][0] = rate_of(profile.attention_forward_flops, run.compute);
    attention_[0][1] = rate_of(profile.attention_forward_causal_flops, run.compute);
    attention_[1][0] = rate_of(profile.attention_backward_flops, run.compute);
    attention_[1][1] = rate_of(profile.attention_backward_causal_flops, run.compute);
}

double Costs::product_seconds(const GemmCost& cost) const {
    const auto m = static_cast<double>(cost.m), n = static_cast<double>(cost.n), k = static_cast<double>(cost.k);
    const double sums = cost.accumulates ? 2 * m * n * gradient_bytes_ : 0;
    const double operands = (m * k + k * n) * compute_bytes_ + (cost.accumulates ? sums : m * n * compute_bytes_);
    return std::max(schedule::flops_of(cost) / gemm_ + sums / hbm_, operands / hbm_);
}

double Costs::attention_seconds(const AttentionCost& cost) const {
    const double all = static_cast<double>(cost.queries) * static_cast<double>(cost.keys);
    const double flops = schedule::flops_of(cost);
    const double flops_of_all = static_cast<double>((cost.backward ? 10 : 4) * cost.head_dim * cost.query_heads) * all;
    return flops / attention_[cost.backward ? 1 : 0][flops < flops_of_all ? 1 : 0];
}

double Costs::pass_rate(Kind kind) const {
    switch (kind) {
        case Kind::kGradientNorm:
            return hbm_read_;
        case Kind::kZeroGradients:
            return hbm_write_;
        default:
            return hbm_;
    }
}

double Costs::compute_seconds(const schedule::Operation& operation) const {
    const schedule::Cost& cost = operation.cost;
    if (const auto* gemm = std::get_if<GemmCost>(&cost)) {
        return launch_ + product_seconds(*gemm);
    }
    if (const auto* attention = std::get_if<AttentionCost>(&cost)) {
        return launch_ + attention_seconds(*attention);
    }
    if (const auto* pass = std::get_if<ElementwiseCost>(&cost)) {
        return launch_ + static_cast<double>(pass->bytes) / pass_rate(operation.id.kind);
    }
    if (const auto* copy = std::get_if<CopyCost>(&cost)) {
        return launch_ + 2.0 * static_cast<double>(copy->bytes) / hbm_;
    }
    return 0.0;
}

double Costs::copy_seconds(Engine engine, std::int64_t bytes, bool both) const {
    require(engine == Engine::kHostToDevice || engine == Engine::kDeviceToHost, "no copy engine: {}", name_of(engine));
    return launch_ + static_cast<double>(bytes) / copy_[engine == Engine::kDeviceToHost ? 1 : 0][both ? 1 : 0];
}

}  // namespace oomb::simulator
