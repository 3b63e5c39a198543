#include "profiler/analysis/window.hpp"

#include <doctest/doctest.h>

#include "profiler/analysis/tracks.hpp"
#include "tests/profiler/fabricated.hpp"

namespace oomb::profiler {
namespace {

Profile recording() {
    return profile_of(
        {Kernel{.begin_ns = 100, .end_ns = 180}, Kernel{.begin_ns = 200, .end_ns = 500},
         Kernel{.begin_ns = 300, .end_ns = 310}, Copy{.begin_ns = 150, .end_ns = 900},
         Memset{.begin_ns = 250, .end_ns = 260}, Memory{.at_ns = 20, .allocates = 1, .address = 1, .bytes = 5},
         Memory{.at_ns = 400, .allocates = 0, .address = 1}, Synchronization{.begin_ns = 210, .end_ns = 700},
         Marker{.at_ns = 0, .kind = MarkerKind::kInstant, .id = 9},  // its time is not known
         Marker{.at_ns = 90, .kind = MarkerKind::kBegin, .id = 1},
         Marker{.at_ns = 220, .kind = MarkerKind::kEnd, .id = 1},
         Marker{.at_ns = 230, .kind = MarkerKind::kBegin, .id = 2},
         Marker{.at_ns = 800, .kind = MarkerKind::kEnd, .id = 2}});
}

}  // namespace

TEST_CASE("a recording lasts from the first begin to the last end of work and ranges") {
    CHECK(recorded_time(recording()) == timeline::Interval{90, 900});
    CHECK(recorded_time(profile_of({Synchronization{.begin_ns = 5, .end_ns = 9}})) == timeline::Interval{});
}

TEST_CASE("a window keeps what begins in it, whole, and the memory that is in use then") {
    Profile profile = recording();
    keep_window(profile, {200, 300});
    REQUIRE(profile.kernels.size() == 1);
    CHECK(profile.kernels[0].end_ns == 500);
    CHECK(profile.copies.empty());
    CHECK(profile.memsets.size() == 1);
    CHECK(profile.synchronizations.size() == 1);
    CHECK(profile.memory.size() == 1);
    const std::vector<Range> ranges = ranges_of(profile);
    REQUIRE(ranges.size() == 1);
    CHECK(ranges[0].begin_ns == 230);
    CHECK(ranges[0].end_ns == 800);
    CHECK(profile.markers.size() == 2);
}

TEST_CASE("tracks: kernels by stream, copies by direction, lanes for what overlaps, ranges of the host last") {
    const Tracks tracks =
        tracks_of(profile_of({StringRecord{1, "domain"}, Kernel{.begin_ns = 10, .end_ns = 30, .place = {0, 1, 7}},
                              Kernel{.begin_ns = 20, .end_ns = 40, .place = {0, 1, 7}},
                              Kernel{.begin_ns = 40, .end_ns = 50, .place = {0, 1, 7}},
                              Copy{.begin_ns = 5, .end_ns = 9, .place = {0, 1, 7}, .kind = CopyKind::kDeviceToHost},
                              Copy{.begin_ns = 6, .end_ns = 8, .place = {0, 1, 8}, .kind = CopyKind::kHostToDevice},
                              Memset{.begin_ns = 1, .end_ns = 2, .place = {1, 1, 7}},
                              Marker{.at_ns = 1, .kind = MarkerKind::kBegin, .id = 1, .thread = 3, .domain = 1},
                              Marker{.at_ns = 2, .kind = MarkerKind::kInstant, .thread = 3, .domain = 1},
                              Marker{.at_ns = 9, .kind = MarkerKind::kEnd, .id = 1, .thread = 3}}),
                  TracksBy::kEngine);
    std::vector<std::string> names;
    std::vector<std::size_t> sizes;
    for (const Track& track : tracks.all) {
        names.push_back(track.name);
        sizes.push_back(track.slices.size());
    }
    CHECK(names == std::vector<std::string>{"stream 7", "stream 7, lane 2", "copies host to device",
                                            "copies device to host", "memsets", "thread 3 domain",
                                            "thread 3 domain, lane 2"});
    CHECK(sizes == std::vector<std::size_t>{2, 1, 1, 1, 1, 1, 1});
    CHECK(tracks.slices == 8);
}

}  // namespace oomb::profiler
