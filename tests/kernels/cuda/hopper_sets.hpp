#pragma once
// The Hopper kernels as sets: attention is theirs, all else as in Cuda<BFloat16>.

#include "kernels/cuda/hopper/attention.hpp"
#include "tests/kernels/cuda/kernel_sets.hpp"
#include "tests/kernels/hopper_case.hpp"

namespace oomb::kernels::test {

template <cuda::hopper::ForwardKernel kKernel>
struct Hopper : Cuda<BFloat16> {
    static constexpr cuda::hopper::ForwardKernel kForward = kKernel;
    static constexpr bool kOrdered = false;

    static void attention_forward(const AttentionForward<BFloat16>& args, const cuda::hopper::PageLists& lists = {},
                                  bool merge = false) {
        cuda::hopper::attention_forward(args, {.kernel = kKernel, .lists = lists, .merge = merge}, nullptr);
        wait();
    }
    static void attention_backward(const AttentionBackward<BFloat16>& args,
                                   const cuda::hopper::PageReaders& readers = {}, const cuda::hopper::PageLists& = {}) {
        cuda::hopper::attention_backward(args, {.kernel = backward_beside(kKernel), .readers = readers}, nullptr);
        wait();
    }
};

// dq in order.
struct HopperOrdered : Hopper<cuda::hopper::ForwardKernel::kSpecialised> {
    static constexpr bool kOrdered = true;

    static void attention_backward(const AttentionBackward<BFloat16>& args,
                                   const cuda::hopper::PageReaders& readers = {},
                                   const cuda::hopper::PageLists& lists = {}) {
        auto turns = turns_for<HopperOrdered>(args);
        cuda::hopper::attention_backward(args, {.readers = readers, .turns = turns.data(), .lists = lists}, nullptr);
        wait();
    }
};

}  // namespace oomb::kernels::test

#define OOMB_HOPPER_SETS                                                                       \
    oomb::kernels::test::Hopper<oomb::kernels::cuda::hopper::ForwardKernel::kSimple>,          \
        oomb::kernels::test::Hopper<oomb::kernels::cuda::hopper::ForwardKernel::kSpecialised>, \
        oomb::kernels::test::HopperOrdered
