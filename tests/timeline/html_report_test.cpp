#include "timeline/html_report.hpp"

#include <doctest/doctest.h>

#include "tests/timeline/lanes.hpp"
#include "timeline/overlap.hpp"

namespace oomb::testing {
namespace {

// What the page's script reads.
Json data_of(const std::string& page) {
    const std::string opening = R"(<script id="data" type="application/json">)";
    const std::size_t begin = page.find(opening) + opening.size();
    return Json::parse(page.substr(begin, page.find("</script>", begin) - begin));
}

TEST_CASE("all that the page shows is in it") {
    timeline::Timeline made = random_timeline(4, 60);
    made.memory.push_back({"GPU memory", {"a"}, {{0, {1}}, {10, {2}}}, 10});
    const std::string page = html_report(made, {.title = "7B, 128K tokens", .facts = "simulated"});
    const Json data = data_of(page);
    CHECK(data.at("title") == "7B, 128K tokens");
    CHECK(data.at("end_ns") == made.end_ns());
    const Json& step = data.at("step");
    CHECK(step.at("compute_ns").get<std::int64_t>() + step.at("exposed_ns").get<std::int64_t>() +
              step.at("idle_ns").get<std::int64_t>() ==
          made.end_ns());
    CHECK(data.at("lanes").size() == schedule::kEngines);
    CHECK(data.at("lanes")[0].at("slices").size() == 6 * 60);
    CHECK(data.at("memory")[0].at("points") == Json{{0, 1}, {10, 2}});
    CHECK(data.at("sections").size() == sections_of(made).size());
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
    const Json points = data_of(html_report(made, {})).at("memory")[0].at("points");
    CHECK(std::ssize(points) <= timeline::kMostMemoryPoints);
    std::int64_t most = 0;
    for (const Json& point : points) {
        most = std::max(most, point[1].get<std::int64_t>());
    }
    CHECK(most == 99);
}

}  // namespace
}  // namespace oomb::testing
