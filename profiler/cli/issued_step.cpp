#include "profiler/cli/issued_step.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <unordered_map>

#include "profiler/cli/run_step.hpp"
#include "runtime/core/error.hpp"
#include "runtime/core/units.hpp"
#include "runtime/issue/issuer.hpp"
#include "runtime/schedule/generator.hpp"
#include "runtime/schedule/optimizer_schedule.hpp"
#include "runtime/trace/operation_marks.hpp"
#include "simulator/cli/recorded_plan.hpp"

namespace oomb::profiler {
namespace {

using schedule::Kind;

// Turns tickets into places.
class EdgeSink : public issue::IssuedSink {
  public:
    void take(issue::IssuedOperation issued) override {
        PathOperation operation{.id = issued.operation.id, .engine = issued.operation.engine};
        operation.after = done_;
        for (std::size_t engine = 0; engine < schedule::kEngines; ++engine) {
            if (const issue::Ticket ticket = issued.waits[engine]; ticket > 0) {
                operation.after[engine] = std::max(operation.after[engine], lanes_[engine].at(ticket - 1));
            }
        }
        auto& lane = lanes_[static_cast<std::size_t>(operation.engine)];
        if (!lane.empty()) {
            operation.after[static_cast<std::size_t>(operation.engine)] = lane.back();
        }
        lane.push_back(std::ssize(step));
        step.push_back(operation);
    }

    // What comes next begins after everything so far.
    void wait_idle() {
        for (std::size_t engine = 0; engine < schedule::kEngines; ++engine) {
            done_[engine] = lanes_[engine].empty() ? PathOperation::kNone : lanes_[engine].back();
        }
    }

    std::vector<PathOperation> step;

  private:
    std::array<std::vector<std::int64_t>, schedule::kEngines> lanes_;  // places, by ticket
    std::array<std::int64_t, schedule::kEngines> done_ = PathOperation{}.after;
};

// The executor looks at loss and gradients between their norm and the first update.
class OptimizerPhase : public schedule::OperationSink {
  public:
    OptimizerPhase(issue::Issuer& issuer, EdgeSink& edges) : issuer_(issuer), edges_(edges) {}
    void take(const schedule::Operation& operation) override {
        issuer_.take(operation);
        if (operation.id.kind == Kind::kGradientNorm) {
            edges_.wait_idle();
        }
    }

  private:
    issue::Issuer& issuer_;
    EdgeSink& edges_;
};

// Gives each operation what the device did for it. Those that the plan has and the recording not.
std::int64_t add_times(std::vector<PathOperation>& step, const RecordedStep& recorded, const std::string& trace,
                       const std::string& profile) {
    std::unordered_map<std::uint64_t, const OperationWork*> works;
    for (const OperationWork& work : recorded.operations) {
        works.emplace(pack(work.id), &work);
    }
    std::int64_t missing = 0;
    std::size_t found = 0;
    for (PathOperation& operation : step) {
        if (const auto work = works.find(pack(operation.id)); work != works.end()) {
            operation.time = work->second->time;
            operation.busy_ns = std::min(work->second->busy_ns, operation.time->end - operation.time->begin);
            ++found;
        } else {
            missing += operation.id.kind == Kind::kRelease ? 0 : 1;
        }
    }
    if (found < works.size()) {
        fail<FileError>("{}: {} of its {} operations are not in the plan of {}: not of the same run", profile,
                        format_count(static_cast<std::int64_t>(works.size() - found)),
                        format_count(std::ssize(recorded.operations)), trace);
    }
    return missing;
}

// Begins of the ranges that the backend opened, one per issued operation, where the recording has them all.
bool add_submissions(std::vector<PathOperation>& step, const Profile& recording, std::int64_t begin_ns) {
    std::set<std::string_view> kinds;  // the names of these ranges; steps have some too
    for (int kind = 0; kind < schedule::kKinds; ++kind) {
        kinds.insert(name_of(static_cast<Kind>(kind)));
    }
    std::vector<const Marker*> ranges;
    std::size_t first = 0;  // range of the last step that begins before `begin_ns`
    for (const Marker& marker : recording.markers) {
        if (marker.kind == MarkerKind::kBegin && recording.text(marker.domain) == trace::kMarkDomain &&
            kinds.contains(recording.text(marker.name))) {
            const bool begins = recording.text(marker.name) == name_of(Kind::kZeroGradients);
            first = begins && marker.at_ns <= begin_ns ? ranges.size() : first;
            ranges.push_back(&marker);
        }
    }
    if (ranges.size() - first < step.size()) {
        return false;
    }
    for (std::size_t i = 0; i < step.size(); ++i) {
        if (recording.text(ranges[first + i]->name) != name_of(step[i].id.kind)) {
            return false;
        }
    }
    for (std::size_t i = 0; i < step.size(); ++i) {
        step[i].submitted_ns = ranges[first + i]->at_ns;
    }
    return true;
}

}  // namespace

std::vector<PathOperation> issued_step(const schedule::Plan& plan, std::int64_t sequences) {
    const schedule::StepShape shape(plan.model, plan.run);
    if (shape.selects()) {
        fail<UnsupportedError>("no critical path of a step with --attention topk: its edges depend on lists of pages");
    }
    EdgeSink edges;
    issue::Issuer issuer(plan, edges);
    for (std::int64_t sequence = 0; sequence < sequences; ++sequence) {
        edges.wait_idle();  // the sequence before still reads its tokens
        schedule::SequenceGenerator(shape, sequence, sequences, issuer).generate();
    }
    OptimizerPhase optimizer(issuer, edges);
    schedule::generate_optimizer(shape, optimizer);
    return std::move(edges.step);
}

PathFindings find_path(const Profile& recording, const std::string& profile, const std::string& trace,
                       std::optional<std::int64_t> number, std::size_t most) {
    const RunStep run = choose_step({.trace = trace, .profile = profile, .recording = &recording}, number);
    const trace::TraceHeader header = trace::TraceReader(trace).header();
    const simulator::RecordedPlan planned = simulator::recorded_plan(JsonNode(header.plan, trace).as_object());
    PathFindings found{.caption = fmt::format("step {} of {}{}", run.traced->number, trace, run.why),
                       .notes = run.notes,
                       .step = issued_step(planned.plan, run.sequences)};
    if (const std::int64_t missing = add_times(found.step, *run.recorded, trace, profile); missing > 0) {
        found.notes.push_back(
            fmt::format("{} of {} operations are not in the recording; they are taken to need no time",
                        format_count(missing), format_count(std::ssize(found.step))));
    }
    if (!add_submissions(found.step, recording, run.recorded->span.begin)) {
        found.notes.emplace_back(
            "the recording has not the NVTX ranges of all operations: what the host held up is not told from launches");
    }
    found.path = critical_path(found.step);
    found.waits = longest_waits(found.step, schedule::Engine::kCompute, most);
    return found;
}

}  // namespace oomb::profiler
