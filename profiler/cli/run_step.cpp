#include "profiler/cli/run_step.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "runtime/core/error.hpp"
#include "runtime/core/units.hpp"

namespace oomb::profiler {
namespace {

using trace::StepFacts;

// A step that all files have.
struct Candidate {
    StepFacts facts;                      // of the trace, without one of the recording
    std::size_t recorded = 0;             // its place in the recording
    std::vector<std::string> lacks = {};  // of a step that is not complete
};

void check_whole(Candidate& candidate, const std::string& file, std::int64_t operations, std::int64_t whole) {
    if (operations != whole) {
        candidate.lacks.push_back(fmt::format("{}: step {} has {} operations, a complete one {}", file,
                                              candidate.facts.number, format_count(operations), format_count(whole)));
    }
}

// Where the recording does not number its steps they are taken for those of the trace in their order.
void number_as_traced(std::vector<RecordedStep>& recorded, const trace::TraceSteps& traced, const RunFiles& files,
                      RunStep& run) {
    const bool numbered = std::all_of(recorded.begin(), recorded.end(), [](const auto& step) { return step.numbered; });
    if (numbered) {
        return;
    }
    if (recorded.size() != traced.steps.size()) {
        run.notes.push_back(fmt::format("{} has {} steps and {} has {}: their first ones are taken for the same",
                                        files.trace, traced.steps.size(), files.profile, recorded.size()));
    }
    for (std::size_t place = 0; place < recorded.size(); ++place) {
        recorded[place].number = place < traced.steps.size() ? traced.steps[place].number : 0;
    }
}

std::vector<Candidate> traced_candidates(const RunFiles& files, std::vector<RecordedStep>& recorded, RunStep& run) {
    trace::TraceReader reader(files.trace);
    const trace::TraceSteps traced = trace::steps_of(reader, files.trace);
    if (traced.truncated) {
        run.notes.push_back(fmt::format("{}: its last line is cut off", files.trace));
    }
    run.sequences = traced.sequences;
    if (files.recording != nullptr) {
        number_as_traced(recorded, traced, files, run);
    }
    std::vector<Candidate> candidates;
    for (const StepFacts& step : traced.steps) {
        const auto same = std::find_if(recorded.begin(), recorded.end(),
                                       [&](const RecordedStep& other) { return other.number == step.number; });
        if (same == recorded.end() && files.recording != nullptr) {
            continue;
        }
        candidates.push_back({.facts = step, .recorded = static_cast<std::size_t>(same - recorded.begin())});
        check_whole(candidates.back(), files.trace, step.operations, traced.steps.front().operations);
    }
    if (candidates.empty()) {
        fail<FileError>("{}: has steps {} to {}, none of which is in {}: not of the same run", files.trace,
                        traced.steps.front().number, traced.steps.back().number, files.profile);
    }
    return candidates;
}

std::vector<Candidate> recorded_candidates(const std::vector<RecordedStep>& recorded) {
    std::vector<Candidate> candidates;
    for (std::size_t place = 0; place < recorded.size(); ++place) {
        const RecordedStep& step = recorded[place];
        candidates.push_back(
            {.facts = {step.number, std::ssize(step.operations), step.span.begin, step.span.end}, .recorded = place});
    }
    return candidates;
}

// The fullest is taken for complete: a recording may begin within a step.
void check_recorded(std::vector<Candidate>& candidates, const std::vector<RecordedStep>& recorded,
                    const std::string& file) {
    std::int64_t whole = 0;
    for (const RecordedStep& step : recorded) {
        whole = std::max(whole, std::ssize(step.operations));
    }
    for (Candidate& candidate : candidates) {
        check_whole(candidate, file, std::ssize(recorded[candidate.recorded].operations), whole);
    }
}

const Candidate& with_number(const std::vector<Candidate>& candidates, std::int64_t number, const std::string& file) {
    const auto found = std::find_if(candidates.begin(), candidates.end(),
                                    [&](const Candidate& candidate) { return candidate.facts.number == number; });
    if (found == candidates.end()) {
        fail<FileError>("{}: has no step {}; to be compared are {} to {}", file, number,
                        candidates.front().facts.number, candidates.back().facts.number);
    }
    return *found;
}

const Candidate& of_median_length(const std::vector<Candidate>& candidates, const std::string& file, std::string& why) {
    std::vector<StepFacts> complete;
    for (const Candidate& candidate : candidates) {
        if (candidate.lacks.empty()) {
            complete.push_back(candidate.facts);
        }
    }
    if (complete.empty()) {
        fail<UnsupportedError>("{}: no step is complete ({}); name one with --step", file,
                               candidates.front().lacks.front());
    }
    const std::vector<StepFacts> warm = trace::warm_steps(std::move(complete));
    if (warm.size() > 1) {
        why =
            fmt::format(", of median length of {} from {} to {}", warm.size(), warm.front().number, warm.back().number);
    }
    return with_number(candidates, trace::median_step(warm).number, file);
}

}  // namespace

RunStep choose_step(const RunFiles& files, std::optional<std::int64_t> number) {
    RunStep run;
    std::vector<RecordedStep> recorded;
    if (files.recording != nullptr) {
        require_marks(*files.recording, files.profile);
        recorded = steps_of(*files.recording);
        if (recorded.empty()) {
            fail<FileError>("{}: no operation in it gave a device anything to do", files.profile);
        }
    }
    std::vector<Candidate> candidates =
        files.trace.empty() ? recorded_candidates(recorded) : traced_candidates(files, recorded, run);
    if (files.recording != nullptr) {
        check_recorded(candidates, recorded, files.profile);
    }
    const std::string& file = files.trace.empty() ? files.profile : files.trace;
    const Candidate& chosen =
        number ? with_number(candidates, *number, file) : of_median_length(candidates, file, run.why);
    run.notes.insert(run.notes.end(), chosen.lacks.begin(), chosen.lacks.end());
    if (!files.trace.empty()) {
        run.traced = chosen.facts;
    }
    if (files.recording != nullptr) {
        run.recorded = std::move(recorded[chosen.recorded]);
    }
    return run;
}

void require_marks(const Profile& profile, const std::string& file) {
    if (profile.marks.empty()) {
        fail<FileError>(
            "{}: no work in it is attributed to operations: not of oomb-train, or recorded without them; record with "
            "oomb-train --profile, or oomb-profile run --operations",
            file);
    }
    if (!profile.kinds_match) {
        fail<FileError>(
            "{}: its operations are numbered as another version of this program does; read it with that one", file);
    }
}

}  // namespace oomb::profiler
