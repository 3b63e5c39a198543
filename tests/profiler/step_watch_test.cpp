#include "profiler/record/step_watch.hpp"

#include <doctest/doctest.h>

#include <random>
#include <vector>

namespace oomb::profiler {
namespace {

constexpr RangeStack kMain{1, nullptr}, kOther{2, nullptr};

}  // namespace

TEST_CASE("steps that are counted: from the begin of the first to the end of the last") {
    StepWatch watch({2, 3});
    CHECK(watch.push_step(kMain, {}) == WindowEvent::kNone);  // 1
    CHECK(watch.pop(kMain) == WindowEvent::kNone);
    CHECK(watch.push_step(kMain, {}) == WindowEvent::kBegins);  // 2
    watch.push_other(kMain);
    CHECK(watch.pop(kMain) == WindowEvent::kNone);
    CHECK(watch.pop(kMain) == WindowEvent::kNone);
    CHECK(watch.push_step(kMain, {}) == WindowEvent::kNone);  // 3
    watch.push_other(kMain);
    CHECK(watch.pop(kMain) == WindowEvent::kNone);
    CHECK(watch.waits_for_pop());
    CHECK(watch.pop(kMain) == WindowEvent::kEnds);
    CHECK(watch.ended());
    CHECK(watch.push_step(kMain, {}) == WindowEvent::kNone);  // 4
    CHECK(watch.pop(kMain) == WindowEvent::kNone);
}

TEST_CASE("ranges of other threads and domains do not end a step") {
    StepWatch watch({1, 1});
    const int domain = 0;
    CHECK(watch.push_step(kMain, {}) == WindowEvent::kBegins);
    CHECK(watch.pop(kOther) == WindowEvent::kNone);
    CHECK(watch.pop({1, &domain}) == WindowEvent::kNone);
    watch.push_other(kOther);
    CHECK(watch.pop(kMain) == WindowEvent::kEnds);
}

TEST_CASE("a window of one step, started and ended by number; another range's end is none") {
    StepWatch watch({2, 2});
    CHECK(watch.start_step(70, {}) == WindowEvent::kNone);
    CHECK(watch.start_step(71, {}) == WindowEvent::kBegins);
    CHECK(watch.end(70) == WindowEvent::kNone);
    CHECK(watch.end(71) == WindowEvent::kEnds);
    CHECK(watch.end(71) == WindowEvent::kNone);
}

TEST_CASE("steps that say their number; one later than the last ends a window whose end was missed") {
    StepWatch watch({5, 6});
    CHECK(watch.push_step(kMain, 4) == WindowEvent::kNone);
    CHECK(watch.seen() == 4);
    CHECK(watch.push_step(kMain, 6) == WindowEvent::kBegins);  // 5 was before the recorder
    CHECK(watch.push_step(kOther, 7) == WindowEvent::kEnds);
    CHECK(watch.push_step(kOther, 5) == WindowEvent::kNone);  // once is enough
    StepWatch late({1, 2});
    CHECK(late.push_step(kMain, 3) == WindowEvent::kNone);
    CHECK_FALSE(late.ended());
}

// Any nesting of steps and other ranges on one thread, against a plain stack.
TEST_CASE("random nesting: the window is from the begin of step A to the end of step B") {
    std::mt19937_64 random(1);
    for (int round = 0; round < 300; ++round) {
        const std::int64_t first = 1 + static_cast<std::int64_t>(random() % 4);
        const StepRange steps{first, first + static_cast<std::int64_t>(random() % 3)};
        StepWatch watch(steps);
        std::vector<std::int64_t> stack;  // the step's number, 0: another range
        std::int64_t count = 0;
        bool step_open = false;
        for (int i = 0; i < 200; ++i) {
            WindowEvent event = WindowEvent::kNone, expected = WindowEvent::kNone;
            if (!stack.empty() && random() % 2 == 0) {
                event = watch.pop(kMain);
                expected = stack.back() == steps.last ? WindowEvent::kEnds : WindowEvent::kNone;
                step_open = step_open && stack.back() == 0;
                stack.pop_back();
            } else if (!step_open && random() % 3 == 0) {  // steps do not nest
                event = watch.push_step(kMain, {});
                stack.push_back(++count);
                step_open = true;
                expected = count == steps.first ? WindowEvent::kBegins : WindowEvent::kNone;
            } else {
                watch.push_other(kMain);
                stack.push_back(0);
            }
            REQUIRE(event == expected);
        }
    }
}

}  // namespace oomb::profiler
