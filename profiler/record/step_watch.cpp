#include "profiler/record/step_watch.hpp"

namespace oomb::profiler {

WindowEvent StepWatch::end_window() {
    ended_ = true;
    depth_ = 0;
    range_.reset();
    return WindowEvent::kEnds;
}

WindowEvent StepWatch::begin_step(std::optional<std::int64_t> number) {
    seen_ = number.value_or(seen_ + 1);
    if (begun_ && !ended_ && seen_ > steps_.last) {
        return end_window();
    }
    if (begun_ || seen_ < steps_.first || seen_ > steps_.last) {
        return WindowEvent::kNone;
    }
    begun_ = true;
    return WindowEvent::kBegins;
}

WindowEvent StepWatch::push_step(const RangeStack& stack, std::optional<std::int64_t> number) {
    push_other(stack);
    const WindowEvent event = begin_step(number);
    if (begun_ && !ended_ && seen_ == steps_.last) {
        stack_ = stack;
        depth_ = 1;
    }
    return event;
}

WindowEvent StepWatch::start_step(std::uint64_t range, std::optional<std::int64_t> number) {
    const WindowEvent event = begin_step(number);
    if (begun_ && !ended_ && seen_ == steps_.last) {
        range_ = range;
    }
    return event;
}

void StepWatch::push_other(const RangeStack& stack) {
    if (depth_ > 0 && stack == stack_) {
        ++depth_;
    }
}

WindowEvent StepWatch::pop(const RangeStack& stack) {
    return depth_ > 0 && stack == stack_ && --depth_ == 0 ? end_window() : WindowEvent::kNone;
}

WindowEvent StepWatch::end(std::uint64_t range) {
    return range_ == range ? end_window() : WindowEvent::kNone;
}

}  // namespace oomb::profiler
