#pragma once
// The backward kernel as attention.cpp launches it; kHeadDim is 64 or 128.

#include "kernels/cuda/hopper/attention.hpp"
#include "kernels/cuda/hopper/tensor_map.hpp"

namespace oomb::kernels::cuda::hopper {

struct BackwardOperands {
    AttentionBackward<BFloat16> args;
    PageReaders readers;
    float scale = 0;
    float scale_log2 = 0;  // scale / ln 2: weights are powers of two
    PageMaps pages;
    CUtensorMap q, d_o, dq;  // made by the launch, which knows the rows of a tile
};

template <int kHeadDim, bool kAhead>
void launch_backward(const BackwardOperands& op, cudaStream_t stream);

constexpr const char* kBackwardName = "hopper::attention_backward";

}  // namespace oomb::kernels::cuda::hopper
