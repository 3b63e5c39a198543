// Lists of pages without a run: recorded ones, those of the model, and the fit of the one to the other.
#include "simulator/lists/page_lists.hpp"

#include <doctest/doctest.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "runtime/core/error.hpp"
#include "runtime/trace/trace.hpp"
#include "simulator/lists/locality_fit.hpp"
#include "tests/core/messages.hpp"
#include "tests/core/scratch_folder.hpp"
#include "tests/schedule/random_step.hpp"

namespace oomb::test {

namespace {

using simulator::ListedRun;
using simulator::Locality;
using simulator::PageTrace;

constexpr ListedRun kRun{3, 4096, 256, 16, 8};  // 256 pages, 16 per chunk, the first listed one is page 16

PageTrace made_by(const Locality& locality, const ListedRun& run) {
    PageTrace trace;
    trace.run = run;
    trace.complete = true;
    const auto source = modelled_lists(locality, run);
    for (std::int64_t layer = 0; layer < run.layers; ++layer) {
        const auto lists = source->page_lists(layer, run.first_listed_page(), run.pages() - run.first_listed_page(), 1);
        trace.lists.insert(trace.lists.end(), lists.begin(), lists.end());
    }
    return trace;
}

schedule::Plan plan_of(const ListedRun& run) {
    testing::RandomStep step = testing::RandomSteps(80).next();
    step.model.layers = run.layers;
    step.run = {};
    step.run.offload = Offload::kHost;
    step.run.page_tokens = run.page_tokens;
    step.run.chunk_tokens = run.chunk_tokens;
    step.run.window_tokens = run.chunk_tokens;
    step.run.context_tokens = run.context_tokens;
    step.run.attention = AttentionMode::kTopK;
    step.run.top_k = run.top_k;
    return schedule::make_plan(step.model, step.run);
}

// The trace of a run, its lists in groups of four query pages; `steps` of them, and of one more the first `rest`
// groups.
std::string text_of(const PageTrace& trace, int steps, int rest) {
    const ListedRun& run = trace.run;
    std::string text = trace::header_line({"a test", "cpu", "steady", Json::parse(to_json(plan_of(run)))});
    for (int step = 1; step <= steps + 1; ++step) {
        text += trace::step_line(step);
        int left = step <= steps ? 1 << 30 : rest;
        for (std::int64_t layer = 0; layer < run.layers; ++layer) {
            for (std::int64_t page = run.first_listed_page(); page < run.pages() && left > 0; page += 4, --left) {
                trace::ListsRecord record{step, 0, layer, page, run.top_k, {}};
                for (std::int64_t i = page; i < page + 4; ++i) {
                    const auto list = trace.list(layer, i);
                    record.lists.insert(record.lists.end(), list.begin(), list.end());
                }
                append_lists_line(record, text);
            }
        }
    }
    return text;
}

}  // namespace

TEST_CASE("lists of the model are ascending pages before the chunk, the same in whatever order they are asked for") {
    const double values[] = {0.0, 0.4, 1.7, 8.0};
    for (const double sink : {0.0, 0.5, 3.0, 1e6}) {
        for (const double recency : values) {
            for (const double zipf : values) {
                const Locality locality{sink, recency, zipf, ""};
                CAPTURE(to_text(locality));
                const auto one = modelled_lists(locality, kRun), other = modelled_lists(locality, kRun);
                for (std::int64_t page = kRun.pages() - 1; page >= kRun.first_listed_page(); page -= 3) {
                    other->page_lists(2, page, 1, 1);
                }
                for (std::int64_t layer = 0; layer < kRun.layers; ++layer) {
                    for (std::int64_t page = kRun.first_listed_page(); page < kRun.pages(); page += 5) {
                        const auto list = one->page_lists(layer, page, 1, 1);
                        CHECK_NOTHROW(issue::checked_lists(list, layer, page, 1, kRun.top_k, kRun.history_of(page)));
                        CHECK(list == other->page_lists(layer, page, 1, 7));
                    }
                }
            }
        }
    }
}

TEST_CASE(
    "lists that were drawn and united once are those of the model, in groups of any size and for whoever opens them") {
    const Locality locality{1.5, 1.0, 0.8, "made up"};
    simulator::DrawnLists drawn;
    const auto one = drawn.open(locality, kRun), other = drawn.open(locality, kRun);
    const auto model = modelled_lists(locality, kRun);
    for (const std::int64_t count : {4, 1, 16}) {
        for (std::int64_t first = kRun.first_listed_page(); first < kRun.pages(); first += count) {
            const issue::AskedLists asked{2, first, count, kRun.top_k, kRun.history_of(first), 7};
            const auto expected = model->checked(asked);
            CHECK(expected->lists == model->page_lists(2, first, count, 7));
            for (const auto& source : {one.get(), other.get(), one.get()}) {
                const auto found = source->checked(asked);
                CHECK(found->length == kRun.top_k);
                CHECK(found->lists == expected->lists);
                CHECK(found->pages == expected->pages);
            }
            CHECK(one->checked(asked) == other->checked(asked));  // the very same
        }
    }
}

TEST_CASE("sink, recency and zipf do what they say") {
    const auto of = [](const Locality& locality) { return statistics_of(made_by(locality, kRun)); };
    const auto sink = of({2.5, 0, 0, ""});
    CHECK(sink.by_place[0].hit_rate == 1.0);
    CHECK(sink.by_place[1].hit_rate == 1.0);
    // 720 lists: half of them name the third page, within five standard deviations, beside those that draw it.
    CHECK(sink.by_place[2].hit_rate == doctest::Approx(0.5).epsilon(0.25));
    const auto flat = of({0, 0, 0, ""}), near = of({0, 8, 0, ""}), popular = of({0, 0, 8, ""});
    CHECK(near.recent_share > 0.8);
    CHECK(flat.recent_share < 0.3);
    CHECK(near.by_distance.front().hit_rate == 1.0);
    CHECK(popular.neighbour_overlap > flat.neighbour_overlap + 0.2);
    CHECK(popular.groups.back().distinct < flat.groups.back().distinct);
    CHECK(flat.named_share == doctest::Approx(popular.named_share));
}

TEST_CASE("statistics of lists, by hand") {
    // Two chunks of two pages have lists of one page, after a first one that has none.
    PageTrace trace;
    trace.run = {1, 24, 8, 4, 1};
    trace.lists = {0, 1, 1, 3};
    const simulator::ListStatistics found = statistics_of(trace);
    CHECK(found.lists == 4);
    CHECK(found.named_share == doctest::Approx((0.5 + 0.5 + 0.25 + 0.25) / 4));
    CHECK(found.recent_share == doctest::Approx(0.5));  // page 1 of two, page 3 of four
    CHECK(found.by_place[0].hit_rate == doctest::Approx(0.25));
    CHECK(found.by_place[1].hit_rate == doctest::Approx(0.5));
    CHECK(found.by_place[2].hit_rate == 0.0);
    CHECK(found.by_place[3].hit_rate == doctest::Approx(0.5));
    REQUIRE(found.groups.size() == 1);
    CHECK(found.groups[0].query_pages == 2);
    CHECK(found.groups[0].distinct == 1.0);
    CHECK(found.neighbour_overlap == 0.0);
    CHECK(found.chunk_overlap == doctest::Approx(0.5));  // of pages 1 and 3, page 1
    trace.lists[1] = -1;                                 // a broken-off run: the first chunk does not count
    CHECK(statistics_of(trace).lists == 2);
    CHECK(statistics_of(trace).chunk_overlap == 0.0);
}

// The fit knows lists only. Of the popularity of pages 12 layers hold few samples that matter, so the numbers come back
// within a quarter; what they are fitted to comes back within a fiftieth.
TEST_CASE("the fit finds the numbers that made the lists") {
    const ListedRun run{12, 4096, 256, 16, 8};
    for (const Locality& made :
         {Locality{0.0, 0.5, 0.3, ""}, Locality{1.0, 1.5, 1.0, ""}, Locality{0.5, 1.0, 1.5, ""}}) {
        const PageTrace trace = made_by(made, run);
        const Locality found = fit_locality(trace);
        CAPTURE(to_text(made));
        CAPTURE(to_text(found));
        CHECK(std::abs(found.sink - made.sink) < 0.25);
        CHECK(std::abs(found.recency - made.recency) < 0.25);
        CHECK(std::abs(found.zipf - made.zipf) < 0.25);
        const auto real = statistics_of(trace), model = statistics_of(trace, found);
        CHECK(model.recent_share == doctest::Approx(real.recent_share).epsilon(0.02));
        CHECK(model.groups.back().distinct == doctest::Approx(real.groups.back().distinct).epsilon(0.02));
    }
}

TEST_CASE("the fit takes the largest group that has lists, and asks for a longer run where none tells anything") {
    const Locality made{1.0, 1.0, 1.0, ""};
    // A whole chunk has 16 pages; only the last one, of 5, has lists.
    const PageTrace trace = made_by(made, {4, 256 + 80, 256, 16, 8});
    const simulator::ListStatistics real = statistics_of(trace);
    REQUIRE(real.lists == 4 * 5);
    REQUIRE(real.groups.back().distinct == 0.0);
    const double found = statistics_of(trace, fit_locality(trace)).groups[1].distinct;
    CHECK(real.groups[1].query_pages == 4);
    // Twenty lists are few: halving ends within the step that one page makes in one of the four groups.
    CHECK(std::abs(found - real.groups[1].distinct) <= 0.05);
    const PageTrace one_page = made_by(made, {4, 256 + 16, 256, 16, 8});
    check_contains(message_of<FileError>([&] { fit_locality(one_page); }), {"longer run"});
}

TEST_CASE("lists that a trace recorded are those that it gives, of the last whole step") {
    const ScratchFolder folder;
    const PageTrace made = made_by({1, 1, 1, ""}, kRun);
    const PageTrace read = simulator::read_page_trace(folder.write("run.trace", text_of(made, 2, 5)));
    CHECK(read.complete);
    CHECK(read.step == 2);
    CHECK(read.lists == made.lists);
    const schedule::Plan plan = plan_of(kRun);
    const auto source = recorded_lists(read, plan);
    const auto direct = modelled_lists({1, 1, 1, ""}, kRun);
    CHECK(source->page_lists(1, 40, 6, 3) == direct->page_lists(1, 40, 6, 3));

    const PageTrace broken = simulator::read_page_trace(folder.write("broken.trace", text_of(made, 0, 5)));
    CHECK_FALSE(broken.complete);
    CHECK(broken.list(0, 16).size() == 8);
    CHECK(broken.list(2, 255).empty());
    check_contains(message_of<UsageError>([&] { recorded_lists(broken, plan); }), {"broken.trace", "missing"});

    for (const auto& [name, other] : {std::pair<const char*, ListedRun>{"--model", {4, 4096, 256, 16, 8}},
                                      {"--context", {3, 4080, 256, 16, 8}},
                                      {"--chunk", {3, 4096, 128, 16, 8}},
                                      {"--page-tokens", {3, 4096, 256, 32, 8}},
                                      {"--top-k", {3, 4096, 256, 16, 4}}}) {
        CAPTURE(name);
        check_contains(message_of<UsageError>([&] { recorded_lists(read, plan_of(other)); }),
                       {name, "run.trace", "--locality"});
    }
}

TEST_CASE("a trace with no lists, or with such as its run cannot have, is refused") {
    const ScratchFolder folder;
    const auto failure = [&](const std::string& text) {
        return message_of<FileError>([&] { simulator::read_page_trace(folder.write("run.trace", text)); });
    };
    const PageTrace made = made_by({1, 1, 1, ""}, kRun);
    check_contains(failure(text_of(made, 0, 0)), {"holds no lists"});
    const std::string start = text_of(made, 0, 0);
    const auto with = [&](const trace::ListsRecord& record) {
        std::string text = start;
        append_lists_line(record, text);
        return failure(text);
    };
    check_contains(with({1, 0, 3, 16, 8, {0, 1, 2, 3, 4, 5, 6, 7}}), {"layer 3", "3 layers"});
    check_contains(with({1, 0, 0, 8, 8, {0, 1, 2, 3, 4, 5, 6, 7}}), {"query pages 8 on"});
    check_contains(with({1, 0, 0, 17, 8, {0, 1, 2, 3, 4, 5, 6, 16}}), {"up to page 16"});
    check_contains(with({1, 0, 0, 16, 7, {0, 1, 2, 3, 4, 5, 6}}), {"lists of 7 pages"});
    testing::RandomStep dense = testing::RandomSteps(1).next();
    check_contains(failure(trace::header_line(
                       {"a test", "cpu", "steady", Json::parse(to_json(schedule::make_plan(dense.model, dense.run)))})),
                   {"run.attention", "topk"});
}

TEST_CASE("numbers of the model, as typed and as a file") {
    const ScratchFolder folder;
    const Locality typed = simulator::read_locality("1.5,0.25,2");
    CHECK(to_text(typed) == "sink 1.5, recency 0.25, zipf 2");
    const auto path = folder.write("l.json", simulator::locality_json({1, 2, 3, "a test"}).dump());
    const Locality read = simulator::read_locality(path.string());
    CHECK(to_text(read) == "sink 1, recency 2, zipf 3");
    CHECK(read.source == "a test");
    for (const char* bad : {"1,2", "1,2,3,4", "1,2,x", "-1,2,3", "1,9,0", "1,0,9", "nan,0,0", ",,", "1, 2,3"}) {
        CAPTURE(bad);
        check_contains(message_of<UsageError>([&] { simulator::read_locality(bad); }),
                       {"--locality", bad, "0.5,1.2,0.9"});
    }
    CHECK_THROWS_AS(simulator::read_locality((folder.path() / "absent").string()), FileError);
    for (const char* bad : {"[]", "{\"format\":\"x\"}", "{\"format\":\"oomb-locality\",\"version\":2}",
                            "{\"format\":\"oomb-locality\",\"version\":1,\"sink\":-1}",
                            "{\"format\":\"oomb-locality\",\"version\":1,\"sink\":1,\"recency\":9}"}) {
        const auto file = folder.write("bad.json", bad);
        CHECK_THROWS_AS(simulator::read_locality(file.string()), FileError);
    }
}

}  // namespace oomb::test
