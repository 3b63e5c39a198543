#pragma once
// A machine of which only the time is modelled: takes what the issuer gives out, as a backend does, and says when it
// would be done.

#include <array>
#include <memory>
#include <vector>

#include "runtime/issue/issued_operation.hpp"
#include "simulator/costs/durations.hpp"
#include "simulator/step/observer.hpp"
#include "simulator/step/prediction.hpp"

namespace oomb::simulator {

// Engines are first in, first out. An operation begins when its engine is free, the tickets that it waits for are done
// and the host, which hands over one operation after the other, has come to it. Keeps sums and, per engine, the times
// of the last operations; no list of operations.
class Clock : public issue::IssuedSink {
  public:
    // `plan`, `durations` and `observer`, if there is one, outlive the clock.
    Clock(const schedule::Plan& plan, Durations& durations, StepObserver* observer = nullptr);
    Clock(const schedule::Plan& plan, const HardwareProfile& profile, StepObserver* observer = nullptr);

    void take(issue::IssuedOperation issued) override { run(issued); }
    void run(const issue::IssuedOperation& issued);
    // What comes next begins after everything so far: the executor waits here.
    void wait_idle();
    // Copies to the host that are taken from now on run beside a copy to the device that is taken after them, or no
    // longer do. Else a copy has the company that it meets when it begins, of those taken before it.
    void expect_fetch(bool expected) { expects_fetch_ = expected; }

    // How far it has come.
    struct Place {
        issue::Tickets issued{};                             // tickets
        std::array<std::size_t, schedule::kEngines> busy{};  // spans of the copy engines
        std::size_t taken = 0;                               // operations
        double submitted = 0.0;                              // when the host had submitted the last one
        double host_work = 0.0;                              // seconds that the host has worked for them
    };
    Place place() const;
    double free_at(schedule::Engine engine) const { return lanes_[static_cast<std::size_t>(engine)].free; }
    // What an operation that was taken did to the sums.
    struct Ran {
        schedule::OperationId id;
        schedule::Engine engine = schedule::Engine::kCompute;
        std::int64_t times = 1;
        double begin = 0.0, seconds = 0.0;
        double waited = 0.0;  // for other engines, since its engine was free and the host had reached it
        double gap = 0.0;     // else since its engine was free: for the host
        std::int64_t bytes = 0;
    };
    void count(const Ran& ran);  // it happened `times`
    // What was taken since `last` happens `times` more, each `later` seconds after the one before. All operations since
    // `first` of engines that were given some since `last` take place so much later; the engines were busy all the same
    // where these took place before.
    void repeat(const Place& first, const Place& last, std::int64_t times, double later);
    // Where every operation that is taken is appended to; null: nowhere. It outlives the clock.
    void log_to(std::vector<Ran>* log) { log_ = log; }
    // The host waits until ticket `stored` of the device-to-host engine is done, for lists of pages: what is taken from
    // now on begins kListLatencySeconds later at the earliest.
    void wait_for_lists(issue::Ticket stored);

    // seconds, phase_seconds, exposed_copy_seconds and uses so far.
    const Prediction& so_far() const { return sums_; }

    // From the end of the copy until what needs the lists can begin: the host wakes up, unites the lists, finds frames,
    // launches. An assumption, not measured.
    static constexpr double kListLatencySeconds = 50e-6;

  private:
    // As many as the streams of the CUDA backend keep. A ticket that has left the ring counts as the oldest in it.
    static constexpr std::size_t kRing = 2048;

    struct Span {
        double begin = 0.0, end = 0.0;
    };
    struct Lane {
        issue::Ticket issued = 0;
        double free = 0.0;                                  // end of the last operation, or of the last wait_idle()
        std::vector<Span> ring = std::vector<Span>(kRing);  // by ticket
        std::vector<Span> busy =
            std::vector<Span>(kRing);  // of a copy engine: the same in the order of time, and what repeat() repeats
        std::size_t spans = 0;         // that `busy` was given
        double turn_used = 0.0;        // of a copy engine that is shared: seconds of the present turn

        void add_busy(const Span& span) { busy[spans++ % kRing] = span; }
    };

    double end_of(const Lane& lane, issue::Ticket ticket) const;
    static bool busy_at(const Lane& lane, double moment);
    void repeat_submission(const Place& last, std::int64_t times, double later);
    double ready_at(const issue::IssuedOperation& issued) const;
    struct Start {
        double begin = 0.0, waited = 0.0;  // as in Ran
    };
    Start start_of(const issue::IssuedOperation& issued, std::int64_t runs, double ready);
    double seconds_of(const issue::IssuedOperation& issued, std::int64_t bytes, double begin) const;
    Span in_turns(Lane& lane, double begin, double seconds) const;

    const schedule::Plan& plan_;
    std::unique_ptr<Durations> own_;  // of a profile
    Durations& durations_;
    // Under Host::kFollowed: when the host has submitted the last operation, and, by number, until when the last
    // kMostInFlight ones and all before them are done.
    double submitted_ = 0.0;
    double host_work_ = 0.0;
    std::vector<double> done_;
    std::size_t taken_ = 0;
    double lists_known_ = 0.0;  // to the host: nothing taken from now on begins earlier
    bool expects_fetch_ = false;
    StepObserver* observer_;
    std::array<Lane, schedule::kEngines> lanes_;
    std::vector<Ran>* log_ = nullptr;
    Prediction sums_;
};

}  // namespace oomb::simulator
