#pragma once
// What the files of the CUDA backend's attention share.

#include <cmath>
#include <type_traits>

#include "kernels/attention.hpp"
#include "kernels/cuda/convert.hpp"
#include "runtime/device/check.hpp"
#include "runtime/schedule/operation.hpp"

namespace oomb::trainer {

inline double scale_of(const schedule::AttentionCost& cost) {
    return 1.0 / std::sqrt(static_cast<double>(cost.head_dim));
}

// Every query sees every key.
template <class E>
kernels::AttentionMask no_mask(const paging::PageView<E>& kv) {
    return {.first_query = kv.first_token + kv.tokens};
}

template <class From, class To>
void convert_on_device(const From* from, To* to, std::int64_t count, cudaStream_t stream) {
    if constexpr (std::is_same_v<From, To>) {
        OOMB_CUDA(cudaMemcpyAsync(to, from, count * sizeof(To), cudaMemcpyDeviceToDevice, stream));
    } else {
        kernels::cuda::convert<From, To>(from, to, count, stream);
    }
}

}  // namespace oomb::trainer
