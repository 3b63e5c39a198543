#pragma once
// The kernel sets under test, one type each: entry points, the storage type and where its operands live.
// A further set is a further type in OOMB_KERNEL_SETS; the tests stay as they are. An executable that tests other sets
// than the CPU's names the header that defines them, OOMB_KERNEL_SETS_HEADER.

#include <utility>
#include <vector>

#include "kernels/cpu/attention.hpp"
#include "kernels/cpu/cross_entropy.hpp"
#include "kernels/cpu/embedding.hpp"
#include "kernels/cpu/optimizer.hpp"
#include "kernels/cpu/page_selection.hpp"
#include "kernels/cpu/qkv.hpp"
#include "kernels/cpu/rms_norm.hpp"
#include "kernels/cpu/rope.hpp"
#include "kernels/cpu/swiglu.hpp"

namespace oomb::kernels::test {

// Memory that kernels of the set can reach, filled from and read back to the host.
template <class E>
class HostBuffer {
  public:
    explicit HostBuffer(std::vector<E> values) : values_(std::move(values)) {}
    E* data() { return values_.data(); }
    std::vector<E> values() const { return values_; }

  private:
    std::vector<E> values_;
};

template <class T>
struct Cpu {
    using Storage = T;
    template <class E>
    using Buffer = HostBuffer<E>;

    static void attention_forward(const AttentionForward<T>& args) { cpu::attention_forward(args); }
    template <class P>
    static void attention_merge(const AttentionMerge<Accumulator<T>, P>& args) {
        cpu::attention_merge(args);
    }
    static void attention_delta(const AttentionDelta<T>& args) { cpu::attention_delta(args); }
    static void attention_backward(const AttentionBackward<T>& args) { cpu::attention_backward(args); }
    static void page_means(const PageMeans<T>& args) { cpu::page_means(args); }
    static void page_scores(const PageScores<T>& args) { cpu::page_scores(args); }
    static void select_pages(const SelectPages<Accumulator<T>>& args) { cpu::select_pages(args); }
    static void invert_lists(const ListInversion& args) { cpu::invert_lists(args); }
    static void page_mass(const PageMass<T>& args) { cpu::page_mass(args); }
    static void page_recall(const PageRecall<Accumulator<T>>& args) { cpu::page_recall(args); }
    static void rms_norm_forward(const RmsNormForward<T>& args) { cpu::rms_norm_forward(args); }
    static void rms_norm_backward(const RmsNormBackward<T>& args) { cpu::rms_norm_backward(args); }
    static void rope_forward(const RopeRotation<T>& args) { cpu::rope_forward(args); }
    static void rope_backward(const RopeRotation<T>& args) { cpu::rope_backward(args); }
    static void qkv_forward(const QkvForward<T>& args) { cpu::qkv_forward(args); }
    static void qkv_backward(const QkvBackward<T>& args) { cpu::qkv_backward(args); }
    static void swiglu_forward(const SwigluForward<T>& args) { cpu::swiglu_forward(args); }
    static void swiglu_backward(const SwigluBackward<T>& args) { cpu::swiglu_backward(args); }
    static void embedding_forward(const EmbeddingForward<T>& args) { cpu::embedding_forward(args); }
    template <class G = Accumulator<T>>
    static void embedding_backward(const EmbeddingBackward<T, G>& args) {
        cpu::embedding_backward(args);
    }
    static CrossEntropySum cross_entropy(const CrossEntropyTile<T>& args) { return cpu::cross_entropy(args); }
    template <class G>
    static void adamw_step(const AdamWStep<T, G>& args) {
        cpu::adamw_step(args);
    }
    template <class E>
    static double sum_of_squares(const E* values, std::int64_t count) {
        return cpu::sum_of_squares(values, count);
    }
    template <class E>
    static std::int64_t find_non_finite(const E* values, std::int64_t count) {
        return cpu::find_non_finite(values, count);
    }
};

}  // namespace oomb::kernels::test

#ifdef OOMB_KERNEL_SETS_HEADER
#include OOMB_KERNEL_SETS_HEADER
#else
#define OOMB_KERNEL_SETS \
    oomb::kernels::test::Cpu<double>, oomb::kernels::test::Cpu<float>, oomb::kernels::test::Cpu<oomb::BFloat16>
#endif
