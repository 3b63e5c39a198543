#pragma once
// Leaves out of a simulated step what only repeats.

#include <array>
#include <vector>

#include "runtime/issue/issuer.hpp"
#include "simulator/step/clock.hpp"

namespace oomb::simulator {

// Stands between the generator and the issuer of a step. The layers of a chunk do the same, one after the other, and so
// do the windows of its history; as soon as they also take the same time the rest of them need not be walked through.
//
// What an iteration does follows from the `depth` iterations before it: engines are first in, first out; whoever takes
// the frame of a page waits for the last use of it; and all pages of the cache were used by those iterations. When each
// operation of the last `depth` iterations began the same time after its like in the iteration before, so will those of
// the next one, and by induction all that are alike and whose pages have their homes in the same tier. They are left
// out: sums are counted that many times more, the last `depth` iterations take place that much later, the cache holds
// the pages that it would hold, pages are born and die. What comes then finds the machine as the full walk leaves it;
// older tickets that no longer exist were done anyway, for whoever used a page's frame since has waited for them.
//
// Equal, here, is up to kSlack of the iteration. Without a fixed point, or beside copies to and from kept pages on the
// host through a slot for every layer, everything is walked through.
class Shortcut : public schedule::OperationSink {
  public:
    // All outlive the shortcut. The issuer gives to the clock, which logs to this.
    Shortcut(const schedule::Plan& plan, issue::Issuer& issuer, Clock& clock);

    void take(const schedule::Operation& operation) override;
    std::int64_t left_out(const schedule::Repetition& repetition) override;

    std::int64_t operations_left_out() const { return operations_left_out_; }

    static constexpr double kSlack = 1e-9;

  private:
    // Between two iterations.
    struct Mark {
        std::size_t ran = 0, settled = 0;  // lengths of the logs
        Clock::Place place;
        std::array<std::uint64_t, 2> requests{};    // to K/V and to gradient pages
        std::array<std::uint64_t, 2> oldest_use{};  // request that used the page that is evicted next
        std::array<std::int64_t, 2> cached{};       // pages of these classes
    };
    // Pages that were born or died for good.
    struct Settled {
        bool born = false;
        PageSet pages;
    };
    struct Loop {
        std::vector<Mark> marks;
        double seconds = 0.0;    // from an iteration to the next one
        std::size_t steady = 0;  // last iterations that began so much after the one before

        void begin(const Mark& mark) {
            marks.assign(1, mark);
            steady = 0;
        }
    };
    struct Shift {
        std::int64_t layers = 0, pages = 0;  // from the pages of an iteration to those of the next one
    };

    Mark mark() const;
    void compare_last(Loop& loop) const;
    bool host_is_ahead(const Mark& b, const Mark& c, double later) const;
    std::size_t depth(const Loop& loop) const;
    std::int64_t slots_in_use(const Loop& loop) const;
    bool copies_apart(const Loop& loop, std::size_t depth) const;
    std::int64_t alike(const schedule::Repetition& repetition) const;
    std::int64_t alike_layers(const schedule::Repetition& repetition) const;
    std::int64_t alike_windows(const schedule::Repetition& repetition) const;
    std::int64_t resident_pages(std::int64_t layer) const;
    std::vector<Settled> lasting(const Loop& loop) const;
    bool has_room(const std::vector<Settled>& settled, std::int64_t times) const;
    void leave_out(const Loop& loop, std::int64_t times);
    void move_pages(const Loop& loop, const std::vector<Settled>& settled, const Shift& shift, std::int64_t times);

    const schedule::StepShape step_;
    const schedule::Plan& plan_;
    issue::Issuer& issuer_;
    Clock& clock_;
    issue::IssuedOperation issued_;  // the last one
    std::array<Loop, 2> loops_;      // by Repetition::Over
    std::vector<Clock::Ran> ran_;    // since the loop over layers began
    std::vector<Settled> settled_;
    bool partly_born_ = false;  // of the pages of a request some were there before
    std::int64_t operations_left_out_ = 0;
};

}  // namespace oomb::simulator
