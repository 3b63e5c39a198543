// Weights, optimizer states and gradients as the run sees them, between steps: set, drawn, read.
#include <algorithm>

#include "kernels/cuda/convert.hpp"
#include "kernels/cuda/optimizer.hpp"
#include "runtime/core/error.hpp"
#include "runtime/core/splitmix.hpp"
#include "runtime/device/check.hpp"
#include "trainer/cuda/cuda_backend.hpp"
#include "trainer/weights/convert.hpp"
#include "trainer/weights/random_weights.hpp"

namespace oomb::trainer {

using schedule::RegionName;

template <class T>
void CudaBackend<T>::set_weight(std::size_t parameter, std::span<const std::byte> values, DType type) {
    const std::int64_t elements = layout_.parameters()[parameter].elements, offset = layout_.offset(parameter);
    std::vector<T> rounded(elements);
    convert<T>(values, type, rounded);
    if constexpr (!std::is_same_v<T, A>) {
        std::vector<A> masters(shards_.has_master() ? elements : 0);
        if (shards_.has_master()) {
            convert<A>(values, type, masters);
        }
        if (shards_.splits_master()) {
            put_state<std::uint16_t>(StateArray::kMaster, offset, split_weights(masters, rounded));
        } else if (shards_.has_master()) {
            put_state<A>(StateArray::kMaster, offset, masters);
        }
    }
    OOMB_CUDA(cudaMemcpy(memory_->idle<T>(RegionName::kWeights) + offset, rounded.data(), elements * sizeof(T),
                         cudaMemcpyHostToDevice));
}

// Elements from `first` on, as they are stored, between the host and their homes.
template <class T>
template <class E>
void CudaBackend<T>::put_state(StateArray array, std::int64_t first, std::span<const E> values) {
    for_each_shard(shards_, first, std::ssize(values), [&](std::int64_t shard, std::int64_t part, std::int64_t count) {
        E* home = state_at_home<E>(*memory_, shards_, array, shard) + (part - shards_.first(shard));
        const E* from = values.data() + (part - first);
        if (shard < shards_.resident) {
            OOMB_CUDA(cudaMemcpy(home, from, count * sizeof(E), cudaMemcpyHostToDevice));
        } else {
            std::copy_n(from, count, home);
        }
    });
}
template <class T>
template <class E>
void CudaBackend<T>::get_state(StateArray array, std::int64_t first, std::span<E> values) const {
    for_each_shard(shards_, first, std::ssize(values), [&](std::int64_t shard, std::int64_t part, std::int64_t count) {
        const E* home = state_at_home<E>(*memory_, shards_, array, shard) + (part - shards_.first(shard));
        E* to = values.data() + (part - first);
        if (shard < shards_.resident) {
            OOMB_CUDA(cudaMemcpy(to, home, count * sizeof(E), cudaMemcpyDeviceToHost));
        } else {
            std::copy_n(home, count, to);
        }
    });
}

// From values on the device.
template <class T>
template <class E>
void CudaBackend<T>::put_masters_of_device(std::int64_t first, const E* values, std::int64_t count) {
    copies_.clear();
    for_each_shard(shards_, first, count, [&](std::int64_t shard, std::int64_t begin, std::int64_t size) {
        E* home = state_at_home<E>(*memory_, shards_, StateArray::kMaster, shard) + (begin - shards_.first(shard));
        const E* from = values + (begin - first);
        const auto bytes = size * static_cast<std::int64_t>(sizeof(E));
        if (shard < shards_.resident) {
            OOMB_CUDA(cudaMemcpyAsync(home, from, bytes, cudaMemcpyDeviceToDevice, stream()));
        } else {
            copies_.push_back({reinterpret_cast<std::byte*>(home) - memory_->arena(Tier::kHost),
                               reinterpret_cast<const std::byte*>(from) - memory_->arena(Tier::kHbm), bytes});
        }
    });
    OOMB_CUDA(cudaStreamSynchronize(stream()));  // what the copies read
    streams_->copy(device::Direction::kDeviceToHost, copies_);
    wait_idle();  // `values` may change then
}

// Drawn piece by piece where the gradients will be, for a step clears those before it adds to them: the masters, and
// behind them the remainders.
template <class T>
void CudaBackend<T>::draw_weights(std::size_t parameter, std::uint64_t key) {
    const std::int64_t elements = layout_.parameters()[parameter].elements, offset = layout_.offset(parameter);
    T* weights = memory_->idle<T>(RegionName::kWeights) + offset;
    if (!shards_.has_master()) {
        kernels::cuda::fill_normal<T>(weights, elements, kInitialStd, key, stream());
        return;
    }
    if constexpr (!std::is_same_v<T, A>) {
        constexpr auto kRoom = static_cast<std::int64_t>(sizeof(A) + sizeof(std::uint16_t));
        const std::int64_t most = region_of(plan_.regions, RegionName::kGradients).total_bytes() / kRoom;
        A* masters = memory_->idle<A>(RegionName::kGradients);
        auto* remainders = reinterpret_cast<std::uint16_t*>(masters + most);
        for (std::int64_t first = 0; first < elements; first += most) {
            const std::int64_t count = std::min(most, elements - first);
            kernels::cuda::fill_normal<A>(masters, count, kInitialStd, key, stream(), first);
            if (shards_.splits_master()) {
                kernels::cuda::split_masters(masters, weights + first, remainders, count, stream());
                put_masters_of_device<std::uint16_t>(offset + first, remainders, count);
            } else {
                kernels::cuda::convert<A, T>(masters, weights + first, count, stream());
                put_masters_of_device<A>(offset + first, masters, count);
            }
        }
    }
}

template <class T>
bool CudaBackend<T>::randomize_weights(std::uint64_t seed) {
    for (std::size_t i = 0; i < layout_.parameters().size(); ++i) {
        const ParameterInfo& parameter = layout_.parameters()[i];
        if (is_vector(parameter.kind)) {
            const std::vector<float> values(parameter.elements, is_norm(parameter.kind) ? 1.0F : 0.0F);
            set_weight(i, std::as_bytes(std::span(values)), DType::kF32);
        } else {
            draw_weights(i, stream_key(seed, parameter.name));
        }
    }
    wait_idle();
    return true;
}

// [elements of the parameter] on the device.
template <class T>
template <class E>
TensorValues CudaBackend<T>::read_back(const E* values, std::size_t parameter) {
    const std::int64_t elements = layout_.parameters()[parameter].elements;
    values_.resize(elements * sizeof(E));
    OOMB_CUDA(cudaMemcpy(values_.data(), values, values_.size(), cudaMemcpyDeviceToHost));
    return TensorValues(std::span<const E>(reinterpret_cast<const E*>(values_.data()), elements));
}

// The master weights where there are some: nothing that the optimizer did is lost.
template <class T>
TensorValues CudaBackend<T>::weight(std::size_t parameter) {
    const std::int64_t elements = layout_.parameters()[parameter].elements, offset = layout_.offset(parameter);
    const T* stored = memory_->idle<T>(RegionName::kWeights) + offset;
    if constexpr (!std::is_same_v<T, A>) {
        if (shards_.splits_master()) {
            std::vector<std::uint16_t> remainders(elements);
            get_state<std::uint16_t>(StateArray::kMaster, offset, remainders);
            const TensorValues weights = read_back(stored, parameter);
            masters_ = join_weights({reinterpret_cast<const T*>(weights.bytes.data()), remainders.size()}, remainders);
            return TensorValues(std::span<const A>(masters_));
        }
        if (shards_.has_master()) {
            masters_.resize(elements);
            get_state<A>(StateArray::kMaster, offset, masters_);
            return TensorValues(std::span<const A>(masters_));
        }
    }
    return read_back(stored, parameter);
}

template <class T>
TensorValues CudaBackend<T>::moment(Moment which, std::size_t parameter) {
    require(shards_.count > 0, "moments: the plan has no optimizer");
    masters_.resize(layout_.parameters()[parameter].elements);
    get_state<A>(array_of(which), layout_.offset(parameter), masters_);
    return TensorValues(std::span<const A>(masters_));
}

template <class T>
void CudaBackend<T>::set_moment(Moment which, std::size_t parameter, std::span<const std::byte> values) {
    require(shards_.count > 0, "moments: the plan has no optimizer");
    put_state<A>(array_of(which), layout_.offset(parameter),
                 aligned_moment<A>(layout_.parameters()[parameter], values));
}

template <class T>
TensorValues CudaBackend<T>::gradient(std::size_t parameter) {
    const auto start = [&]<class E>(const GradientPlace& place) { return memory_->idle<E>(place.region); };
    return visit_gradient<T>(gradient_places_.of(parameter), start,
                             [&](const auto* values) { return read_back(values, parameter); });
}

#define OOMB_PARAMETERS(T)                                                                     \
    template void CudaBackend<T>::set_weight(std::size_t, std::span<const std::byte>, DType);  \
    template void CudaBackend<T>::draw_weights(std::size_t, std::uint64_t);                    \
    template bool CudaBackend<T>::randomize_weights(std::uint64_t);                            \
    template TensorValues CudaBackend<T>::weight(std::size_t);                                 \
    template TensorValues CudaBackend<T>::moment(Moment, std::size_t);                         \
    template void CudaBackend<T>::set_moment(Moment, std::size_t, std::span<const std::byte>); \
    template TensorValues CudaBackend<T>::gradient(std::size_t);
OOMB_PARAMETERS(BFloat16)
OOMB_PARAMETERS(float)

}  // namespace oomb::trainer
