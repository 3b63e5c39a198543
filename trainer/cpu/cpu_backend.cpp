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
      gradient_places_(layout_, plan.run),
      shards_(schedule::optimizer_shards(schedule::StepShape(plan.model, plan.run))),
      frequencies_(rope_frequencies(plan.model)),
      memory_(plan, options.checked),
      options_(std::move(options)) {
    require(bytes_of(plan.run.compute) == sizeof(T) && bytes_of(plan.run.accumulator) == sizeof(A),
            "CPU backend: the plan computes in {}", name_of(plan.run.compute));
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
    const std::int64_t first = layout_.offset(parameter), elements = layout_.parameters()[parameter].elements;
    const std::span<T> target(weights() + first, elements);
    convert<T>(values, type, target);
    if constexpr (!std::is_same_v<T, A>) {
        if (!shards_.has_master()) {
            return;
        }
        std::vector<A> masters(elements);
        convert<A>(values, type, masters);
        if (shards_.splits_master()) {
            put_state<std::uint16_t>(StateArray::kMaster, first, split_weights(masters, target));
        } else {
            put_state<A>(StateArray::kMaster, first, masters);
        }
    }
}

// The master weights where there are some: nothing that the optimizer did is lost.
template <class T>
TensorValues CpuBackend<T>::weight(std::size_t parameter) {
    const std::int64_t first = layout_.offset(parameter), elements = layout_.parameters()[parameter].elements;
    const std::span<const T> stored(weights() + first, elements);
    if constexpr (!std::is_same_v<T, A>) {
        if (shards_.splits_master()) {
            std::vector<std::uint16_t> remainders(elements);
            get_state<std::uint16_t>(StateArray::kMaster, first, remainders);
            values_ = join_weights(stored, remainders);
            return TensorValues(std::span<const A>(values_));
        }
        if (shards_.has_master()) {
            values_.resize(elements);
            get_state<A>(StateArray::kMaster, first, values_);
            return TensorValues(std::span<const A>(values_));
        }
    }
    return TensorValues(stored);
}

template <class T>
TensorValues CpuBackend<T>::moment(Moment which, std::size_t parameter) {
    require(shards_.count > 0, "moments: the plan has no optimizer");
    values_.resize(layout_.parameters()[parameter].elements);
    get_state<A>(array_of(which), layout_.offset(parameter), values_);
    return TensorValues(std::span<const A>(values_));
}

template <class T>
void CpuBackend<T>::set_moment(Moment which, std::size_t parameter, std::span<const std::byte> values) {
    require(shards_.count > 0, "moments: the plan has no optimizer");
    put_state<A>(array_of(which), layout_.offset(parameter),
                 aligned_moment<A>(layout_.parameters()[parameter], values));
}

template <class T>
TensorValues CpuBackend<T>::gradient(std::size_t parameter) {
    const auto start = [&]<class E>(const GradientPlace& place) { return memory_.template idle<E>(place.region); };
    return visit_gradient<T>(gradient_places_.of(parameter), start, [&]<class E>(const E* values) {
        return TensorValues(std::span<const E>(values, layout_.parameters()[parameter].elements));
    });
}

// Elements from `first` on, as they are stored, to and from their homes.
template <class T>
template <class E>
void CpuBackend<T>::put_state(StateArray array, std::int64_t first, std::span<const E> values) {
    for_each_shard(shards_, first, std::ssize(values), [&](std::int64_t shard, std::int64_t part, std::int64_t count) {
        E* home = state_at_home<E>(memory_, shards_, array, shard);
        std::copy_n(values.begin() + (part - first), count, home + (part - shards_.first(shard)));
    });
}
template <class T>
template <class E>
void CpuBackend<T>::get_state(StateArray array, std::int64_t first, std::span<E> values) const {
    for_each_shard(shards_, first, std::ssize(values), [&](std::int64_t shard, std::int64_t part, std::int64_t count) {
        const E* home = state_at_home<E>(memory_, shards_, array, shard);
        std::copy_n(home + (part - shards_.first(shard)), count, values.begin() + (part - first));
    });
}

template <class T>
std::vector<typename CpuBackend<T>::A> CpuBackend<T>::moments(StateArray array) const {
    std::vector<A> values;
    for (std::int64_t shard = 0; shard < shards_.count; ++shard) {
        const A* home = state_at_home<A>(memory_, shards_, array, shard);
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
std::vector<double> CpuBackend<T>::token_losses(std::int64_t tokens) const {
    const A* losses = memory_.template idle<A>(RegionName::kHostLosses);
    return {losses, losses + tokens};
}

template <class T>
std::vector<RecallSums> CpuBackend<T>::recall() const {
    const auto* sums = memory_.template idle<RecallSums>(RegionName::kRecall);
    return {sums, sums + model_.layers * plan_.run.recall_budgets.size()};
}

template <class T>
NonFinite CpuBackend<T>::find_non_finite() const {
    const auto start = [&]<class E>(const GradientPlace& place) { return memory_.template idle<E>(place.region); };
    const auto& parameters = layout_.parameters();
    const auto search = [&](const char* what, const auto& find) -> NonFinite {
        for (std::size_t i = 0; i < parameters.size(); ++i) {
            if (const std::int64_t index = find(i); index >= 0) {
                return {fmt::format("{} {}", what, parameters[i].name), index};
            }
        }
        return {};
    };
    const NonFinite in_weights = search("weight", [&](std::size_t i) {
        return kernels::cpu::find_non_finite(memory_.template idle<T>(RegionName::kWeights) + layout_.offset(i),
                                             parameters[i].elements);
    });
    const bool ends = !in_weights.tensor.empty() || gradient_places_.none();
    return ends ? in_weights : search("gradient of", [&](std::size_t i) {
        return visit_gradient<T>(gradient_places_.of(i), start, [&](const auto* values) {
            return kernels::cpu::find_non_finite(values, parameters[i].elements);
        });
    });
}

template <class T>
const T* CpuBackend<T>::weight(const Issued& issued, ParameterKind kind, std::int64_t layer) {
    return memory_.template read<T>(issued, RegionName::kWeights, layout_.elements()) + layout_.offset(kind, layer);
}

template <class T>
typename CpuBackend<T>::A* CpuBackend<T>::vector_gradient(const Issued& issued, ParameterKind kind,
                                                          std::int64_t layer) {
    const GradientPlace place = gradient_places_.of(layout_.index(kind, layer));
    return memory_.template write<A>(issued, place.region, place.region_elements) + place.first;
}

template <class T>
std::int64_t CpuBackend<T>::row_in_chunk(const Issued& issued) const {
    return issued.operation.first_row - issued.operation.id.chunk * plan_.run.chunk_tokens;
}

template class CpuBackend<BFloat16>;
template class CpuBackend<float>;
template class CpuBackend<double>;

}  // namespace oomb::trainer
