// The host's side of sampling counters: CUPTI's library alone, no GPU.
#include "profiler/record/counter_samples.hpp"

#include <doctest/doctest.h>

#include <limits>

#include "runtime/core/error.hpp"

namespace oomb::profiler {

TEST_CASE("an H200's chip has all counters, in one pass") {
    const CounterPlan plan("GH100", {});
    CHECK(plan.metrics().size() == std::size(kCounterMetrics));
    CHECK_FALSE(plan.config_image().empty());
}

TEST_CASE("a chip that is not known is refused by name") {
    CHECK_THROWS_WITH_AS(CounterPlan("XX999", {}), doctest::Contains("chip XX999"), UnsupportedError);
}

TEST_CASE("samples become records; those without a time and values that are no counts do not") {
    std::vector<Record> records;
    std::vector<std::string> names;
    const RecordSink sink{[&](const Record& record) { records.push_back(record); },
                          [&](std::string_view text) {
                              names.emplace_back(text);
                              return static_cast<StringId>(names.size());
                          }};
    const char* const metrics[] = {"read", "write"};
    add_counters(3, metrics, {1'000, 2'000, {512.0, 0.4}}, sink);
    REQUIRE(records.size() == 2);
    CHECK(records[0] == Record(Counter{.begin_ns = 1'000, .end_ns = 2'000, .device = 3, .name = 1, .value = 512}));
    CHECK(records[1] == Record(Counter{.begin_ns = 1'000, .end_ns = 2'000, .device = 3, .name = 2, .value = 0}));
    CHECK(names == std::vector<std::string>{"read", "write"});
    records.clear();
    add_counters(3, metrics, {0, 2'000, {1, 1}}, sink);
    add_counters(3, metrics, {2'000, 2'000, {1, 1}}, sink);
    add_counters(3, metrics, {3'000, 2'000, {1, 1}}, sink);
    add_counters(3, metrics, {1'000, ~std::uint64_t{0}, {1, 1}}, sink);
    CHECK(records.empty());
    add_counters(3, metrics, {1'000, 2'000, {std::numeric_limits<double>::quiet_NaN(), -1}}, sink);
    add_counters(3, metrics, {1'000, 2'000, {std::numeric_limits<double>::infinity(), 1e30}}, sink);
    CHECK(records.empty());
}

}  // namespace oomb::profiler
