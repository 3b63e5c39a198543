#pragma once
// A recorded run on the simulator's clock, as it was or with something changed.

#include <array>
#include <optional>
#include <set>

#include "simulator/costs/durations.hpp"
#include "simulator/replay/fit.hpp"
#include "simulator/replay/recording.hpp"

namespace oomb::simulator {

// What a replay does not take from the recording. Bytes per second of one direction alone; while both copy they are as
// much slower as they were. Bandwidths are nothing where they stay, `schedule` says that the plan is another one.
struct Changes {
    std::optional<double> host_to_device = {}, device_to_host = {};
    CopyTurns copy_turns = {};  // with another program, for ever
    bool schedule = false;

    bool copies() const { return schedule || host_to_device || device_to_host; }  // what they take by themselves
    bool any() const { return copies() || copy_turns.shared(); }
};

// Times of a recording:
//   an operation of the compute engine that is in it, with the same work   as recorded, and so is its submission
//   another one                  the line through the recorded ones of its kind and class; the mean submission of its
//   kind one that none is like        the stand-in's time; without one the line through all of its class a copy between
//   the tiers     as recorded where nothing is changed; else a line per direction and whether the other
//                                one is busy, with the bandwidth that is given. A direction of which nothing is
//                                recorded, or only copies of less than a sixteenth of the bytes: the stand-in's time,
//                                without one the line there is, or the other direction's
class RecordedDurations : public Durations {
  public:
    // `recording` and `stand_in`, if there is one, outlive this.
    RecordedDurations(const Recording& recording, Host host, const Changes& changes, Durations* stand_in);

    // FileError where neither recording nor stand-in knows anything like it.
    double seconds(const schedule::Operation& operation, std::int64_t bytes, bool both) override;
    Submission submission(const schedule::Operation& operation, std::int64_t runs) override;
    Host host() const override { return host_; }
    CopyTurns copy_turns() const override { return changes_.copy_turns; }

    // Kinds whose times came from elsewhere so far.
    const std::set<schedule::Kind>& not_recorded() const { return not_recorded_; }

    // Bytes per second of a copy engine without the constant, alone or while both copy; nothing where none is recorded.
    std::optional<double> copy_rate(schedule::Engine engine, bool both) const;

  private:
    struct Mean {
        double operations = 0.0;
        Submission sum;
    };

    const RecordedOperation* find(const schedule::Operation& operation);
    double compute_seconds(const schedule::Operation& operation);
    double copy_seconds(const schedule::Operation& operation, std::int64_t bytes, bool both);
    std::optional<Line> copy_line(schedule::Engine engine, bool both) const;
    std::int64_t largest_copy_bytes(schedule::Engine engine) const;
    std::optional<double> given(schedule::Engine engine) const;
    void add(const RecordedOperation& recorded);

    const Recording& recording_;
    Host host_;
    Changes changes_;
    Durations* stand_in_;
    std::vector<std::uint32_t> by_id_;  // places in the recording
    std::size_t next_ = 0;              // where the one that is asked for probably is
    std::array<std::array<Fit, kWorkClasses>, schedule::kKinds> kinds_;
    std::array<Fit, kWorkClasses> classes_;
    std::array<Mean, schedule::kKinds + 1> submissions_;  // the last: of all kinds
    struct RecordedCopies {
        Fit fit;
        std::int64_t largest_bytes = 0;
    };
    std::array<std::array<RecordedCopies, 2>, 2> copies_;  // by device-to-host and both
    std::set<schedule::Kind> not_recorded_;
};

}  // namespace oomb::simulator
