#pragma once
// The steps of the forward kernel as attention.cpp launches them; kHeadDim is 64 or 128.

#include "kernels/cuda/hopper/attention.hpp"
#include "kernels/cuda/hopper/tensor_map.hpp"

namespace oomb::kernels::cuda::hopper {

struct ForwardOperands {
    AttentionForward<BFloat16> args;
    PageLists lists;
    bool merge = false;
    float scale_log2 = 0;  // scale / ln 2: weights are powers of two
    PageMaps pages;
    CUtensorMap q;  // made by the launch, which knows the rows of a tile
};

template <int kHeadDim>
void launch_simple(const ForwardOperands& op, cudaStream_t stream);
// Queries of a tile are 128 or, where head_dim is 64 and no lists hold tiles to a page, 192.
template <int kHeadDim>
void launch_specialised(const ForwardOperands& op, cudaStream_t stream);

constexpr const char* kForwardName = "hopper::attention_forward";

}  // namespace oomb::kernels::cuda::hopper
