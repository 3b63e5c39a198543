#include "profiler/cli/sampled_counters.hpp"

#include <fmt/format.h>
#include <signal.h>

#include <utility>

#include "profiler/file/append_counters.hpp"
#include "profiler/record/counter_entries.hpp"
#include "runtime/core/error.hpp"

namespace oomb::profiler {

SampledCounters::SampledCounters(const Recorder& recorder, const std::filesystem::path& recording)
    : recorder_(recorder), recording_(recording), out_(recording.string() + ".counters") {
    if (std::filesystem::exists(out_)) {
        fail<FileError>("{}: exists already, and counters go there while the program runs; remove it", out_.string());
    }
    const auto begin = recorder_.entry<decltype(oomb_begin_counters)>("oomb_begin_counters");
    sampling_ = begin(out_.c_str()) == 1;
}

SampledCounters::~SampledCounters() {
    end();
    if (!keep_) {
        std::error_code ignored;
        std::filesystem::remove(out_, ignored);
    }
}

bool SampledCounters::end() {
    return std::exchange(sampling_, false) && recorder_.entry<decltype(oomb_end_counters)>("oomb_end_counters")() == 1;
}

void SampledCounters::add_to_recording(const RecordingWindow& window, std::ostream& err) {
    if (!end()) {
        return;
    }
    // The recording is continued in place: an interruption would leave it without its end.
    signal(SIGINT, SIG_IGN);
    signal(SIGTERM, SIG_IGN);
    try {
        append_counters(recording_, out_, window.everything() ? CountersOf::kRun : CountersOf::kWindow);
    } catch (const FileError& error) {
        keep_ = true;
        err << fmt::format("oomb-profile: counters are left in {}: {}\n", out_.string(), error.what());
    }
    signal(SIGINT, SIG_DFL);
    signal(SIGTERM, SIG_DFL);
}

}  // namespace oomb::profiler
