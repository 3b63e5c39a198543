#pragma once
// The CUDA kernels as sets of the contract suite: each entry point launches and waits.

#include <cstddef>
#include <vector>

#include "kernels/cuda/attention.hpp"
#include "kernels/cuda/cross_entropy.hpp"
#include "kernels/cuda/embedding.hpp"
#include "kernels/cuda/optimizer.hpp"
#include "kernels/cuda/page_selection.hpp"
#include "kernels/cuda/qkv.hpp"
#include "kernels/cuda/rms_norm.hpp"
#include "kernels/cuda/rope.hpp"
#include "kernels/cuda/swiglu.hpp"
#include "tests/kernels/cuda/device_buffer.hpp"

namespace oomb::kernels::test {

inline void wait() {
    require_cuda(cudaDeviceSynchronize(), "a kernel under test");
}

template <class T>
struct Cuda {
    using Storage = T;
    template <class E>
    using Buffer = DeviceBuffer<E>;
    using Workspace = DeviceBuffer<std::byte>;

    static void attention_forward(const AttentionForward<T>& args) {
        cuda::attention_forward(args, nullptr);
        wait();
    }
    template <class P>
    static void attention_merge(const AttentionMerge<Accumulator<T>, P>& args) {
        cuda::attention_merge(args, nullptr);
        wait();
    }
    static void attention_delta(const AttentionDelta<T>& args) {
        cuda::attention_delta(args, nullptr);
        wait();
    }
    static void attention_backward(const AttentionBackward<T>& args) {
        cuda::attention_backward(args, nullptr);
        wait();
    }
    static void page_means(const PageMeans<T>& args) {
        cuda::page_means(args, nullptr);
        wait();
    }
    static void page_scores(const PageScores<T>& args) {
        Workspace workspace(cuda::page_scores_workspace_bytes<T>(args.tokens, args.kv_heads, args.head_dim));
        cuda::page_scores(args, workspace.data(), nullptr);
        wait();
    }
    static void select_pages(const SelectPages<Accumulator<T>>& args) {
        cuda::select_pages(args, nullptr);
        wait();
    }
    static void invert_lists(const ListInversion& args) {
        cuda::invert_lists(args, nullptr);
        wait();
    }
    static void page_mass(const PageMass<T>& args) {
        cuda::page_mass(args, nullptr);
        wait();
    }
    static void page_recall(const PageRecall<Accumulator<T>>& args) {
        cuda::page_recall(args, nullptr);
        wait();
    }
    static void rms_norm_forward(const RmsNormForward<T>& args) {
        cuda::rms_norm_forward(args, nullptr);
        wait();
    }
    static void rms_norm_backward(const RmsNormBackward<T>& args) {
        Workspace workspace(cuda::rms_norm_backward_workspace_bytes<T>(args.rows, args.width));
        cuda::rms_norm_backward(args, workspace.data(), nullptr);
        wait();
    }
    static void rope_forward(const RopeRotation<T>& args) {
        cuda::rope_forward(args, nullptr);
        wait();
    }
    static void rope_backward(const RopeRotation<T>& args) {
        cuda::rope_backward(args, nullptr);
        wait();
    }
    static void qkv_forward(const QkvForward<T>& args) {
        cuda::qkv_forward(args, nullptr);
        wait();
    }
    static void qkv_backward(const QkvBackward<T>& args) {
        Workspace workspace(
            cuda::qkv_backward_workspace_bytes<T>(args.rows, args.query_heads, args.kv_heads, args.head_dim));
        cuda::qkv_backward(args, workspace.data(), nullptr);
        wait();
    }
    static void swiglu_forward(const SwigluForward<T>& args) {
        cuda::swiglu_forward(args, nullptr);
        wait();
    }
    static void swiglu_backward(const SwigluBackward<T>& args) {
        cuda::swiglu_backward(args, nullptr);
        wait();
    }
    static void embedding_forward(const EmbeddingForward<T>& args) {
        cuda::embedding_forward(args, nullptr);
        wait();
    }
    template <class G = Accumulator<T>>
    static void embedding_backward(const EmbeddingBackward<T, G>& args) {
        cuda::embedding_backward(args, nullptr);
        wait();
    }
    static CrossEntropySum cross_entropy(const CrossEntropyTile<T>& args) {
        Workspace workspace(cuda::cross_entropy_workspace_bytes(args.rows));
        DeviceBuffer<CrossEntropySum> sum(std::vector<CrossEntropySum>(1));
        cuda::cross_entropy(args, sum.data(), workspace.data(), nullptr);
        wait();
        return sum.values()[0];
    }
    template <class G>
    static void adamw_step(const AdamWStep<T, G>& args) {
        cuda::adamw_step(args, nullptr);
        wait();
    }
    template <class E>
    static double sum_of_squares(const E* values, std::int64_t count) {
        Workspace workspace(cuda::sum_of_squares_workspace_bytes());
        DeviceBuffer<double> sum(std::vector<double>(1));
        cuda::sum_of_squares(values, count, sum.data(), workspace.data(), nullptr);
        wait();
        return sum.values()[0];
    }
    template <class E>
    static std::int64_t find_non_finite(const E* values, std::int64_t count) {
        DeviceBuffer<std::int64_t> index(std::size_t{1});
        cuda::find_non_finite(values, count, index.data(), nullptr);
        wait();
        return index.values()[0];
    }
};

}  // namespace oomb::kernels::test

#define OOMB_KERNEL_SETS \
    oomb::kernels::test::Cuda<double>, oomb::kernels::test::Cuda<float>, oomb::kernels::test::Cuda<oomb::BFloat16>
