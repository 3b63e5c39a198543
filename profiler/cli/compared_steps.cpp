#include "profiler/cli/compared_steps.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "profiler/cli/run_step.hpp"
#include "profiler/report/report.hpp"

namespace oomb::profiler {
namespace {

using timeline::Timeline;

constexpr auto kPrediction = static_cast<std::size_t>(Source::kPrediction);
constexpr auto kEvents = static_cast<std::size_t>(Source::kEvents);
constexpr auto kCupti = static_cast<std::size_t>(Source::kCupti);

Timeline read_plan(const std::string& file) try {
    return timeline::read_timeline(file, std::nullopt);
} catch (const FileError& error) {
    fail<FileError>("{}; --plan takes a predicted step: oomb-plan timeline ... --trace FILE", error.what());
}

void check_same_run(const Timeline& plan, const Timeline& run, const ComparedFiles& files, ComparisonText& about) {
    const PlanDifference difference = plan_difference(plan.plan, run.plan);
    if (!difference.model.empty()) {
        fail<FileError>(
            "{} and {}: of two models, whose operations are not the same work ({}); predict the run that was traced",
            files.plan, files.trace, fmt::join(difference.model, ", "));
    }
    if (!difference.run.empty()) {
        about.notes.push_back(fmt::format("{} and {}: of two settings ({}); compared is what both have", files.plan,
                                          files.trace, fmt::join(difference.run, ", ")));
    }
}

void check_same_device(const Timeline& run, const Profile& profile, const ComparedFiles& files, ComparisonText& about) {
    const bool found = std::any_of(profile.devices.begin(), profile.devices.end(),
                                   [&](const Device& device) { return profile.text(device.name) == run.device; });
    if (!profile.devices.empty() && !found) {
        about.notes.push_back(fmt::format("{} ran on {}, {} has {}: not the same run", files.trace, run.device,
                                          files.profile, profile.text(profile.devices.front().name)));
    }
}

}  // namespace

ComparedSteps read_steps(const ComparedFiles& files, std::optional<std::int64_t> number) {
    ComparedSteps found;
    std::optional<Timeline> plan, traced;
    std::optional<Profile> profile;
    if (!files.plan.empty()) {
        plan = read_plan(files.plan);
        found.steps[kPrediction] = times_of(*plan);
        found.about.captions[kPrediction] = fmt::format("{}: {} on {}", files.plan, plan->program, plan->device);
        if (plan->clock != "simulated") {
            found.about.notes.push_back(
                fmt::format("{}: its clock is \"{}\": measured, not predicted", files.plan, plan->clock));
        }
    }
    if (!files.profile.empty()) {
        profile = read_profile(files.profile);
    }
    const RunStep run = choose_step(
        {.trace = files.trace, .profile = files.profile, .recording = profile ? &*profile : nullptr}, number);
    if (run.traced) {
        traced = timeline::read_timeline(files.trace, run.traced->number);
        found.steps[kEvents] = times_of(*traced);
        found.about.captions[kEvents] = fmt::format("{}: step {}{}; {} on {}", files.trace, run.traced->number, run.why,
                                                    traced->program, traced->device);
    }
    if (run.recorded) {
        found.steps[kCupti] = times_of(*profile, *run.recorded);
        found.about.captions[kCupti] =
            fmt::format("{}: step {}{}", files.profile, run.recorded->number, run.traced ? "" : run.why);
        for (std::string& line : warnings_of(*profile)) {
            found.about.notes.push_back(std::move(line));
        }
    }
    found.about.notes.insert(found.about.notes.end(), run.notes.begin(), run.notes.end());
    if (plan && traced) {
        check_same_run(*plan, *traced, files, found.about);
    }
    if (traced && profile) {
        check_same_device(*traced, *profile, files, found.about);
    }
    return found;
}

}  // namespace oomb::profiler
