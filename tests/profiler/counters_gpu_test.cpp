// Hardware counters held against the copies that were recorded beside them.

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <csignal>

#include "tests/profiler/recorded_program.hpp"

namespace oomb::profiler {
namespace {

// Of device 0, by begin.
std::vector<Counter> samples_of(const Profile& profile, std::string_view name) {
    std::vector<Counter> samples;
    for (const Counter& sample : profile.counters) {
        if (profile.text(sample.name) == name && sample.device == 0) {
            samples.push_back(sample);
        }
    }
    return samples;
}

struct Coverage {
    std::int64_t span_ns = 0, covered_ns = 0, longest_gap_ns = 0, gaps = 0;
    double share() const { return static_cast<double>(covered_ns) / static_cast<double>(span_ns); }
};

Coverage coverage_of(const std::vector<Counter>& samples) {
    Coverage coverage;
    std::int64_t end_ns = samples.front().begin_ns;
    for (const Counter& sample : samples) {
        if (sample.begin_ns > end_ns) {
            ++coverage.gaps;
            coverage.longest_gap_ns = std::max(coverage.longest_gap_ns, sample.begin_ns - end_ns);
        }
        coverage.covered_ns += std::max<std::int64_t>(0, sample.end_ns - std::max(end_ns, sample.begin_ns));
        end_ns = std::max(end_ns, sample.end_ns);
    }
    coverage.span_ns = end_ns - samples.front().begin_ns;
    return coverage;
}

// Of the copies, which do not overlap, what fell into samples, which do not either; both by begin.
double bytes_within(const std::vector<Copy>& copies, const std::vector<Counter>& samples) {
    double bytes = 0;
    auto copy = copies.begin();
    for (const Counter& sample : samples) {
        while (copy != copies.end() && copy->end_ns <= sample.begin_ns) {
            ++copy;
        }
        for (auto at = copy; at != copies.end() && at->begin_ns < sample.end_ns; ++at) {
            const auto within_ns = std::min(at->end_ns, sample.end_ns) - std::max(at->begin_ns, sample.begin_ns);
            bytes += static_cast<double>(at->bytes) * static_cast<double>(within_ns) /
                     static_cast<double>(at->end_ns - at->begin_ns);
        }
    }
    return bytes;
}

}  // namespace

TEST_CASE("counters beside the records, or one line about why there are none") {
    const Recorded recorded = record("copies", "--counters");
    check_counts(recorded);
    const Profile& profile = *recorded.profile;
    if (has_note(profile, "counters are not sampled")) {
        MESSAGE(recorded.output);
        CHECK(profile.counters.empty());
        return;
    }
    const std::vector<Counter> samples = samples_of(profile, "pcie__read_bytes.sum");
    REQUIRE(samples.size() > 1'000);
    REQUIRE(profile.copies.size() > 1'000);
    const Coverage coverage = coverage_of(samples);
    MESSAGE(samples.size() << " samples cover " << coverage.share() << " of " << coverage.span_ns << " ns; "
                           << coverage.gaps << " gaps, the longest of " << coverage.longest_gap_ns << " ns");
    // An image of 4,000 samples is cleared with what is open, some 20 at most.
    CHECK(coverage.share() > 0.99);
    // Sampling begins before the program and ends after it.
    CHECK(samples.front().begin_ns < profile.copies.front().begin_ns);
    CHECK(samples.back().end_ns > profile.copies.back().end_ns);

    double read = 0;
    for (const Counter& sample : samples) {
        read += static_cast<double>(sample.value);
    }
    const double copied = bytes_within(profile.copies, samples);
    MESSAGE("read " << read << " bytes, copied while sampled " << copied << ", copied in all "
                    << recorded.number("to_device_bytes"));
    // What is counted are whole packets: each of 256 bytes at most, with 12 bytes of header or more; beside them
    // commands, some MB/s of tens of GB/s. And a copy's bytes are spread evenly over its 1.2 ms here, which is wrong by
    // less than one of 2,000 copies at each gap.
    CHECK(read > 1.02 * copied);
    CHECK(read < 1.10 * copied);

    // One clock: traffic begins and ends with the copies. A sample at the border is busy from half of its millisecond
    // on.
    const double half =
        copied / 2 * 1e6 / static_cast<double>(profile.copies.back().end_ns - profile.copies.front().begin_ns);
    const auto is_busy = [&](const Counter& sample) {
        return static_cast<double>(sample.value) * 1e6 > half * static_cast<double>(sample.end_ns - sample.begin_ns);
    };
    const auto first = std::find_if(samples.begin(), samples.end(), is_busy);
    const auto last = std::find_if(samples.rbegin(), samples.rend(), is_busy);
    REQUIRE(first != samples.end());
    const std::int64_t begins_late_ns = first->begin_ns - profile.copies.front().begin_ns;
    const std::int64_t ends_late_ns = last->end_ns - profile.copies.back().end_ns;
    MESSAGE("traffic begins " << begins_late_ns << " ns after the first copy, ends " << ends_late_ns
                              << " ns after the last");
    CHECK(std::abs(begins_late_ns) < 2'000'000);
    CHECK(std::abs(ends_late_ns) < 2'000'000);
}

TEST_CASE("counters of a program of 0.2 s: it ends as it would without") {
    check_counts(record("overlap", "--counters"));
}

TEST_CASE("counters of a window: only beside what is recorded") {
    const Recorded recorded = record("seconds", "--counters --start-after 1 --seconds 1");
    INFO(recorded.output);
    CHECK(recorded.code == 0);
    REQUIRE(recorded.profile);
    const Profile& profile = *recorded.profile;
    CHECK(profile.file.whole);
    REQUIRE_FALSE(profile.kernels.empty());
    if (!has_note(profile, "counters are not sampled")) {
        REQUIRE_FALSE(profile.counters.empty());
        CHECK(profile.counters.front().end_ns > profile.kernels.front().begin_ns);
        CHECK(profile.counters.back().begin_ns < profile.kernels.back().end_ns);
    }
}

TEST_CASE("counters of a killed program: its recording has them, and stays cut off") {
    const Recorded recorded = record("killed", "--counters");
    INFO(recorded.output);
    CHECK(recorded.code == 128 + SIGKILL);
    REQUIRE(recorded.profile);
    CHECK_FALSE(recorded.profile->file.whole);
    CHECK(recorded.profile->file.damaged_blocks == 0);
    CHECK_FALSE(recorded.profile->kernels.empty());
    CHECK(recorded.profile->counters.empty() == has_note(*recorded.profile, "counters are not sampled"));
}

}  // namespace oomb::profiler
