// Counters in a file of their own. Without a GPU, or without permission, the file says why it has none.
#include "profiler/record/counter_recording.hpp"

#include <doctest/doctest.h>

#include <thread>

#include "runtime/core/error.hpp"
#include "tests/profiler/fabricated.hpp"

namespace oomb::profiler {

TEST_CASE("counters are sampled, or a note says why they are not") {
    const TemporaryPath out;
    CounterRecording recording(out.get(), test_header());
    std::this_thread::sleep_for(2 * CounterSampler::kDecodeEvery);
    recording.finish();
    const Profile profile = read_profile(out.get());
    CHECK(profile.file.whole);
    CHECK(profile.header == test_header());
    if (profile.counters.empty()) {
        REQUIRE_FALSE(profile.notes.empty());
        CHECK(profile.notes[0].find("counters are not sampled") == 0);
    }
}

TEST_CASE("a recording of counters that is given up leaves its file readable") {
    const TemporaryPath out;
    { const CounterRecording recording(out.get(), test_header()); }
    CHECK(read_profile(out.get()).header == test_header());
}

TEST_CASE("counters do not go into a file that exists") {
    const TemporaryPath out;
    out.write("mine");
    CHECK_THROWS_AS(CounterRecording(out.get(), test_header()), FileError);
    CHECK(out.bytes() == "mine");
}

}  // namespace oomb::profiler
