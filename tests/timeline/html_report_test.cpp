#include "timeline/html_report.hpp"

#include <doctest/doctest.h>

#include "tests/timeline/lanes.hpp"
#include "timeline/overlap.hpp"
#include "timeline/page.hpp"

namespace oomb::testing {
namespace {

// What the page's script reads.
Json data_of(const std::string& page) {
    const std::string opening = R"(<script id="data" type="application/json">)";
    const std::size_t begin = page.find(opening) + opening.size();
    return Json::parse(page.substr(begin, page.find("</script>", begin) - begin));
}

// The n-th of a kind.
Json panel(const Json& data, const std::string& kind, int number = 0) {
    for (const Json& one : data.at("panels")) {
        if (one.at("kind") == kind && number-- == 0) {
            return one;
        }
    }
    FAIL("no panel ", kind);
    return {};
}

TEST_CASE("all that the page shows is in it") {
    timeline::Timeline made = random_timeline(4, 60);
    made.memory.push_back({"GPU memory", {"a"}, {{0, {1}}, {10, {2}}}, 10});
    const std::string page = html_report(made, {.title = "7B, 128K tokens", .facts = "simulated"});
    const Json data = data_of(page);
    CHECK(data.at("title") == "7B, 128K tokens");
    CHECK(data.at("end_ns") == made.end_ns());
    const Json step = panel(data, "bar");
    std::int64_t sum = 0;
    for (const Json& part : step.at("parts")) {
        sum += part[1].get<std::int64_t>();
    }
    CHECK(sum == made.end_ns());
    CHECK(step.at("whole_ns") == made.end_ns());
    const Json lanes = panel(data, "lanes");
    REQUIRE(lanes.at("lanes").size() == 3);
    CHECK(lanes.at("lanes")[1].at("name") == "host to device");
    // Six numbers a slice: begin, duration, category, name, detail, bytes.
    const Json& slices = lanes.at("lanes")[0].at("slices");
    REQUIRE(slices.size() == 6 * 60);
    const timeline::Slice& slice = made.lane(schedule::Engine::kCompute)[3];
    CHECK(slices[18] == slice.begin_ns);
    CHECK(slices[19] == slice.end_ns - slice.begin_ns);
    CHECK(slices[20] == static_cast<int>(timeline::Group::kLinear));
    CHECK(lanes.at("texts")[slices[21].get<std::size_t>()] == "linear_down");
    CHECK(lanes.at("texts")[slices[22].get<std::size_t>()] == "backward, chunk 0, layer 0");
    CHECK(slices[23] == slice.bytes);
    CHECK(panel(data, "memory").at("points") == Json{{0, 1}, {10, 2}});
    CHECK(panel(data, "table", 2).at("rows").size() == sections_of(made).size());
    for (const char* outside : {"http://", "https://", "src=", "@import", "url("}) {
        CHECK(page.find(outside) == std::string::npos);
    }
}

TEST_CASE("a name that would end the script does not") {
    const std::string page = html_report(random_timeline(5, 3), {.title = "</script><b>&\"'", .facts = "\xff"});
    CHECK(data_of(page).at("title") == "</script><b>&\"'");
}

TEST_CASE("memory keeps its peaks when there are too many points") {
    timeline::Timeline made = random_timeline(6, 3);
    timeline::MemoryTrack track{"GPU memory", {"a"}, {}, 10};
    for (std::int64_t i = 0; i < 10 * timeline::kMostMemoryPoints; ++i) {
        track.points.push_back({i, {i == 12345 ? 99 : i % 7}});
    }
    made.memory.push_back(track);
    const Json points = panel(data_of(html_report(made, {})), "memory").at("points");
    CHECK(std::ssize(points) <= timeline::kMostMemoryPoints);
    std::int64_t most = 0;
    for (const Json& point : points) {
        most = std::max(most, point[1].get<std::int64_t>());
    }
    CHECK(most == 99);
}

}  // namespace
}  // namespace oomb::testing
