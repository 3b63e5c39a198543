#pragma once
// The backward kernel as attention.cpp launches it; kHeadDim is 64 or 128.

#include "kernels/cuda/hopper/attention.hpp"
#include "kernels/cuda/hopper/tensor_map.hpp"

namespace oomb::kernels::cuda::hopper {

struct BackwardOperands {
    AttentionBackward<BFloat16> args;
    PageReaders readers;
    PageLists lists;                // of the same pages, where dq is ordered
    std::int32_t* turns = nullptr;  // for which page it is to add to a tile; behind them, how many blocks have begun
    float scale = 0;
    float scale_log2 = 0;  // scale / ln 2: weights are powers of two
    PageMaps pages;
    CUtensorMap q, d_o, dq;  // made by the launch, which knows the rows of a tile
};

// BackwardKernel's, and the one that adds to dq in order.
enum class BackwardStep { kSimple, kSpecialised, kOrdered };

template <int kHeadDim, BackwardStep kStep>
void launch_backward(const BackwardOperands& op, cudaStream_t stream);

constexpr const char* kBackwardName = "hopper::attention_backward";

}  // namespace oomb::kernels::cuda::hopper
