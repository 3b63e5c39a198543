#pragma once
// Attention over one contiguous window by cuDNN, bf16, in one stream. Rows and heads are token-major:
// q, o [rows, query_heads, head_dim], k, v [keys, kv_heads, head_dim].

#include <cuda_runtime_api.h>

#include <compare>
#include <cstdint>
#include <map>
#include <memory>

#include "runtime/core/dtype.hpp"

namespace oomb::trainer {

struct AttentionWindow {
    std::int64_t rows = 0, keys = 0;
    std::int64_t query_heads = 0, kv_heads = 0, head_dim = 0;
    bool causal = false;  // row i sees keys 0 .. i (the own chunk); else all rows see all keys
    auto operator<=>(const AttentionWindow&) const = default;
};

struct CudnnForward {
    const BFloat16 *q = nullptr, *k = nullptr, *v = nullptr;
    BFloat16* o = nullptr;         // out, normalised over the window
    float* log_sum_exp = nullptr;  // out [rows, query_heads], natural
};

// Of one window, given the output and log-sum-exp over *all* windows: see kernels/attention.hpp.
struct CudnnBackward {
    const BFloat16 *q = nullptr, *k = nullptr, *v = nullptr;
    const BFloat16 *o = nullptr, *d_o = nullptr;
    const float* log_sum_exp = nullptr;  // [query_heads, rows]: cuDNN takes no other order here
    // Out, written, not added to. cuDNN 9.19 accepts an fp32 dq, but still stores 16-bit numbers in it.
    BFloat16 *dq = nullptr, *dk = nullptr, *dv = nullptr;
};

// Used by one thread. The first call for a window builds its graph (half a second).
class CudnnAttention {
  public:
    CudnnAttention(cudaStream_t stream, bool deterministic);
    ~CudnnAttention();
    CudnnAttention(const CudnnAttention&) = delete;
    CudnnAttention& operator=(const CudnnAttention&) = delete;

    // Bytes of workspace, -1 where cuDNN does not support the window.
    std::int64_t prepare_forward(const AttentionWindow& window);
    std::int64_t prepare_backward(const AttentionWindow& window);

    // `workspace` has the bytes that prepare_* said, at 256 bytes. Throws Error with cuDNN's text.
    void forward(const AttentionWindow& window, const CudnnForward& args, void* workspace);
    void backward(const AttentionWindow& window, const CudnnBackward& args, void* workspace);

    // Windows that a graph has been built for, forward and backward each.
    std::int64_t graphs() const;

  private:
    struct Impl;
    std::unique_ptr<Impl> impl_;
};

}  // namespace oomb::trainer
