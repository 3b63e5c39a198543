#pragma once
// A machine of which only the time is modelled: takes what the issuer gives out, as a backend does, and says when it
// would be done.

#include <array>
#include <memory>
#include <vector>

#include "runtime/issue/issued_operation.hpp"
#include "simulator/durations.hpp"
#include "simulator/observer.hpp"
#include "simulator/prediction.hpp"

namespace oomb::simulator {

// Engines are first in, first out. An operation begins when its engine is free and the tickets that it waits for are
// done. Keeps sums and, per engine, the times of the last operations; no list of operations.
class Clock : public issue::IssuedSink {
  public:
    // `plan`, `durations` and `observer`, if there is one, outlive the clock.
    Clock(const schedule::Plan& plan, Durations& durations, StepObserver* observer = nullptr);
    Clock(const schedule::Plan& plan, const HardwareProfile& profile, StepObserver* observer = nullptr);

    void take(issue::IssuedOperation issued) override;
    // What comes next begins after everything so far: the executor waits here.
    void wait_idle();

    // seconds, phase_seconds, exposed_copy_seconds and uses so far.
    const Prediction& so_far() const { return sums_; }

  private:
    // As many as the streams of the CUDA backend keep. A ticket that has left the ring counts as the oldest in it.
    static constexpr std::size_t kRing = 2048;

    struct Span {
        double begin = 0.0, end = 0.0;
    };
    struct Lane {
        issue::Ticket issued = 0;
        double free = 0.0;  // end of the last operation, or of the last wait_idle()
        std::vector<Span> ring = std::vector<Span>(kRing);
    };

    double end_of(const Lane& lane, issue::Ticket ticket) const;
    bool busy_at(const Lane& lane, double moment) const;
    double ready_at(const issue::IssuedOperation& issued) const;
    double begin_of(const issue::IssuedOperation& issued, double ready);
    double seconds_of(const issue::IssuedOperation& issued, std::int64_t bytes, double begin) const;

    const schedule::Plan& plan_;
    std::unique_ptr<Durations> own_;  // of a profile
    Durations& durations_;
    // Under Host::kFollowed: when the host has submitted the last operation, and, by number, until when the last
    // kMostInFlight ones and all before them are done.
    double submitted_ = 0.0;
    std::vector<double> done_;
    std::size_t taken_ = 0;
    StepObserver* observer_;
    std::array<Lane, schedule::kEngines> lanes_;
    Prediction sums_;
};

}  // namespace oomb::simulator
