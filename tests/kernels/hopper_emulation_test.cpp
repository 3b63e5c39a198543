// The Hopper kernels as they stand, on a model of the multiprocessor: what they compute, and that no order in which
// threads, copies and products may run makes them wrong or hang. No GPU is needed.
#include <doctest/doctest.h>

#include "tests/kernels/emulation/machine.hpp"
#include "tests/kernels/hopper_case.hpp"
#include "tests/kernels/implementations.hpp"

namespace oomb::kernels::test {
namespace {

using cuda::hopper::ForwardKernel;

template <ForwardKernel kKernel>
struct Emulated : Cpu<BFloat16> {
    static constexpr ForwardKernel kForward = kKernel;
    static constexpr bool kOrdered = false;

    static void attention_forward(const AttentionForward<BFloat16>& args, const cuda::hopper::PageLists& lists = {},
                                  bool merge = false) {
        cuda::hopper::attention_forward(args, {.kernel = kKernel, .lists = lists, .merge = merge}, nullptr);
    }
    static void attention_backward(const AttentionBackward<BFloat16>& args,
                                   const cuda::hopper::PageReaders& readers = {}, const cuda::hopper::PageLists& = {}) {
        cuda::hopper::attention_backward(args, {.kernel = backward_beside(kKernel), .readers = readers}, nullptr);
    }
};

// dq in order.
struct EmulatedOrdered : Emulated<cuda::hopper::ForwardKernel::kSpecialised> {
    static constexpr bool kOrdered = true;

    static void attention_backward(const AttentionBackward<BFloat16>& args,
                                   const cuda::hopper::PageReaders& readers = {},
                                   const cuda::hopper::PageLists& lists = {}) {
        auto turns = turns_for<EmulatedOrdered>(args);
        cuda::hopper::attention_backward(args, {.readers = readers, .turns = turns.data(), .lists = lists}, nullptr);
    }
};

#define OOMB_EMULATED_SETS Emulated<ForwardKernel::kSimple>, Emulated<ForwardKernel::kSpecialised>, EmulatedOrdered

TEST_CASE_TEMPLATE("emulated: a few pages, ragged tiles and groups", Set, OOMB_EMULATED_SETS) {
    for (const std::int64_t head_dim : {64, 128}) {
        check<Set>({70, 3, 1, head_dim, 333, 128, {}, 0, {.first_query = 263}});
        check<Set>({200, 2, 2, head_dim, 700, 128, {256}, 0, {.first_query = 500}});
        check<Set>({1, 1, 1, head_dim, 1, 128, {}, 5, {.first_query = 9}});
    }
}

// Each stage of the rings is used nine times: a barrier that counts seven of eight arrivals is a phase ahead by then.
TEST_CASE_TEMPLATE("emulated: many pages", Set, OOMB_EMULATED_SETS) {
    check<Set>({64, 1, 1, 128, 2'304, 128, {}, 0, {.first_query = 2'240}});
}

TEST_CASE_TEMPLATE("emulated: masks", Set, OOMB_EMULATED_SETS) {
    check<Set>({140, 1, 1, 64, 640, 128, {}, 0, {.first_query = 500, .sliding_window = 200}});
    check<Set>({140, 2, 1, 64, 300, 128, {130}, 1'000, {.first_query = 930}});  // the first 70 see nothing
    check<Set>({140, 1, 1, 128, 300, 128, {}, 1'000, {.first_query = 2}});      // none sees any
    std::vector<std::int64_t> starts(140, 3);
    std::fill(starts.begin() + 60, starts.end(), 560);
    std::fill(starts.begin() + 100, starts.begin() + 104, 700);  // nothing is left to see
    check<Set>({140, 1, 1, 128, 640, 128, {}, 0, {.first_query = 500}, 1.0, starts});
}

TEST_CASE_TEMPLATE("emulated: lists of pages, and windows merged in place", Set, OOMB_EMULATED_SETS) {
    for (const std::int64_t head_dim : {64, 128}) {
        emulation::set_resident(head_dim == 64 ? 1 : 3);
        check_lists<Set>({300, 2, 1, head_dim, 700, kPage, {}, 0, {.first_query = 600}}, 3);
        check_merge<Set>({100, 1, 1, head_dim, 300, kPage, {}, 0, {.first_query = 170, .sliding_window = 90}});
    }
    emulation::set_resident(1);
}

TEST_CASE_TEMPLATE("emulated: a chunk and its history, dense", Set, OOMB_EMULATED_SETS) {
    for (const std::int64_t head_dim : {64, 128}) {
        emulation::set_resident(head_dim == 64 ? 3 : 2);
        check_chunk<Set>({200, 3, 1, head_dim, 840, kPage, {384, 640}, 0, {.first_query = 640}});
        check_chunk<Set>({200, 2, 2, head_dim, 200, kPage, {}, 0, {.first_query = 0}});
        check_chunk<Set>({1, 2, 1, head_dim, 129, kPage, {128}, 0, {.first_query = 128}});
        check_chunk<Set>({200, 2, 1, head_dim, 456, kPage, {128, 256}, 0, {.first_query = 256, .sliding_window = 150}});
    }
    emulation::set_resident(1);
}

TEST_CASE("emulated: a touched page is added to") {
    using Set = Emulated<ForwardKernel::kSpecialised>;
    const AttentionCase c{70, 3, 1, 128, 333, 128, {}, 0, {.first_query = 263}};
    const auto in = attention_input<BFloat16>(c);
    auto expected = oracle::attention(in);
    const auto bounds = rounding_bounds(in, expected);
    for (auto* values : {&expected.dq, &expected.dk, &expected.dv}) {
        std::for_each(values->begin(), values->end(), [](double& value) { value += 0.25; });
    }
    AttentionOutput out;
    run_backward<Set>(c, in, expected, /*first_touch=*/false, 0.25, out);
    check_backward(out, expected, bounds);
}

// The order in which things happen is drawn anew, and how many blocks there are at once: dq alone may differ in its
// last bits, unless it is ordered.
TEST_CASE_TEMPLATE("emulated: any order of events gives the same bits", Set, OOMB_EMULATED_SETS) {
    const AttentionCase c{130, 2, 1, 64, 520, 128, {}, 0, {.first_query = 390}};
    const auto in = attention_input<BFloat16>(c);
    const auto expected = oracle::attention(in);
    AttentionOutput first;
    for (unsigned seed = 1; seed <= 4; ++seed) {
        emulation::set_seed(seed);
        emulation::set_resident(seed);
        AttentionOutput out;
        run_forward<Set>(c, in, out);
        run_backward<Set>(c, in, expected, true, 0.0, out);
        if (seed == 1) {
            first = out;
        }
        CHECK(out.o == first.o);
        CHECK(out.lse == first.lse);
        CHECK(out.dk == first.dk);
        CHECK(out.dv == first.dv);
        CHECK(relative_error(out.dq, first.dq) < 1e-6);
        if (Set::kOrdered) {
            CHECK(out.dq == first.dq);
        }
    }
    emulation::set_resident(1);
}

}  // namespace
}  // namespace oomb::kernels::test
