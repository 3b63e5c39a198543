#include "trainer/cpu/cpu_backend.hpp"

#include <algorithm>
#include <cmath>

#include "kernels/cpu/optimizer.hpp"
#include "runtime/core/error.hpp"
#include "runtime/issue/movement.hpp"
#include "trainer/executor/dispatch.hpp"
#include "trainer/weights/convert.hpp"

namespace oomb::trainer {

using schedule::RegionName;

template <class T>
CpuBackend<T>::CpuBackend(const schedule::Plan& plan, CpuBackendOptions options)
    : plan_(plan),
      model_(plan.model),
      layout_(plan.model),
      shards_(schedule::optimizer_shards(schedule::StepShape(plan.model, plan.run))),
      frequencies_(rope_frequencies(plan.model)),
      memory_(plan, options.checked),
      options_(std::move(options)) {
    const DType type = sizeof(T) == 8 ? DType::kF64 : DType::kF32;
    require(plan.run.compute == type && plan.run.accumulator == type, "CPU backend: the plan computes in {}",
            name_of(plan.run.compute));
    const auto run = [this](const Issued& issued) { carry_out(issued); };
    switch (options_.order) {
        case CpuBackendOptions::Order::kInOrder:
            queues_ = make_in_order_queues(run);
            break;
        case CpuBackendOptions::Order::kShuffled:
            queues_ = make_shuffled_queues(run, options_.seed, options_.shuffle_depth);
            break;
        case CpuBackendOptions::Order::kThreads:
            queues_ = make_threaded_queues(run);
            break;
    }
}

template <class T>
void CpuBackend<T>::take(Issued operation) {
    if (options_.tamper) {
        options_.tamper(operation);
    }
    memory_.issued(operation);
    queues_->take(std::move(operation));
}

template <class T>
void CpuBackend<T>::carry_out(const Issued& issued) {
    const Clock::time_point begin = Clock::now();
    Dispatch::run(*this, issued);
    memory_.end_lives(issued);
    note_time(issued, begin, Clock::now());
    if (this->on_done) {
        this->on_done(issued.operation);
    }
}

template <class T>
void CpuBackend<T>::note_time(const Issued& issued, Clock::time_point begin, Clock::time_point end) {
    using Seconds = std::chrono::duration<double>;
    const double seconds = Seconds(end - begin).count();
    const issue::Movement moved = issue::movement_of(issued, plan_);
    const int engine = static_cast<int>(issued.operation.engine);
    if (issued.operation.engine == schedule::Engine::kCompute) {
        phase_seconds_[static_cast<int>(issued.operation.id.phase)] += seconds;
    } else {
        copied_[engine].bytes += moved.bytes;
        copied_[engine].seconds += seconds;
    }
    if (this->on_timed) {
        const std::lock_guard lock(timed_mutex_);
        this->on_timed({.operation = &issued.operation,
                        .begin_seconds = Seconds(begin - start_).count(),
                        .end_seconds = Seconds(end - start_).count(),
                        .bytes = moved.bytes,
                        .pages = moved.pages});
    }
}

template <class T>
void CpuBackend<T>::set_sequence(std::span<const std::int32_t> tokens, std::span<const std::int32_t> targets) {
    auto* host = memory_.template idle<std::int32_t>(RegionName::kHostTokens);
    const std::int64_t context = plan_.run.context_tokens;
    std::copy(tokens.begin(), tokens.end(), host);
    std::copy(targets.begin(), targets.end(), host + context);
    memory_.note_touched(Tier::kHost, region_of(plan_.regions, RegionName::kHostTokens).offset_bytes +
                                          (context + static_cast<std::int64_t>(targets.size())) * 4);
}

template <class T>
void CpuBackend<T>::set_weight(std::size_t parameter, std::span<const std::byte> values, DType type) {
    const std::span<T> target(weights() + layout_.offset(parameter), layout_.parameters()[parameter].elements);
    convert<T>(values, type, target);
}

template <class T>
TensorValues CpuBackend<T>::values_of(const T* region, std::size_t parameter) const {
    return TensorValues(
        std::span<const T>(region + layout_.offset(parameter), layout_.parameters()[parameter].elements));
}

template <class T>
std::vector<T> CpuBackend<T>::moments(StateArray array) const {
    std::vector<T> values;
    for (std::int64_t shard = 0; shard < shards_.count; ++shard) {
        const T* home = state_at_home<T>(memory_, shards_, array, shard);
        values.insert(values.end(), home, home + shards_.size(shard));
    }
    return values;
}

template <class T>
StepSums CpuBackend<T>::sums() const {
    const auto* scalars = const_cast<CpuMemory&>(memory_).idle<double>(RegionName::kScalars);
    return {scalars[0], static_cast<std::int64_t>(scalars[1]), scalars[2]};
}

template <class T>
NonFinite CpuBackend<T>::find_non_finite() const {
    auto& memory = const_cast<CpuMemory&>(memory_);
    const auto search = [&](RegionName region, const char* what) -> NonFinite {
        const T* values = memory.idle<T>(region);
        for (std::size_t i = 0; i < layout_.parameters().size(); ++i) {
            const ParameterInfo& parameter = layout_.parameters()[i];
            const std::int64_t index = kernels::cpu::find_non_finite(values + layout_.offset(i), parameter.elements);
            if (index >= 0) {
                return {fmt::format("{} {}", what, parameter.name), index};
            }
        }
        return {};
    };
    const NonFinite in_weights = search(RegionName::kWeights, "weight");
    return in_weights.tensor.empty() ? search(RegionName::kGradients, "gradient of") : in_weights;
}

template <class T>
const T* CpuBackend<T>::weight(const Issued& issued, ParameterKind kind, std::int64_t layer) {
    return memory_.template read<T>(issued, RegionName::kWeights, layout_.elements()) + layout_.offset(kind, layer);
}

template <class T>
T* CpuBackend<T>::gradient(const Issued& issued, ParameterKind kind, std::int64_t layer) {
    return memory_.template write<T>(issued, RegionName::kGradients, layout_.elements()) + layout_.offset(kind, layer);
}

template <class T>
std::int64_t CpuBackend<T>::row_in_chunk(const Issued& issued) const {
    return issued.operation.first_row - issued.operation.id.chunk * plan_.run.chunk_tokens;
}

template class CpuBackend<float>;
template class CpuBackend<double>;

}  // namespace oomb::trainer
