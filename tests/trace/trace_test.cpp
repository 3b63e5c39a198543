#include "runtime/trace/trace.hpp"

#include <doctest/doctest.h>

#include <fstream>
#include <iterator>
#include <numeric>
#include <optional>
#include <random>

#include "runtime/core/error.hpp"
#include "tests/core/messages.hpp"
#include "tests/core/scratch_folder.hpp"
#include "tests/schedule/random_step.hpp"

namespace oomb::trace {
namespace {

using testing::RandomStep;
using testing::RandomSteps;

TraceHeader header() {
    return {.program = "a test", .device = "cpu", .clock = "steady", .plan = {{"format", "oomb-plan"}}};
}

// Operations of a real step with random times, so that ids of every kind and large numbers occur.
std::vector<TraceRecord> random_records(std::uint64_t seed, std::int64_t steps) {
    RandomSteps random(seed);
    const RandomStep step = random.next();
    std::vector<TraceRecord> records;
    std::int64_t now = random.between(0, std::int64_t{1} << 45);
    for (std::int64_t number = 1; number <= steps; ++number) {
        for (const schedule::Operation& operation : testing::operations_of(step.model, step.run)) {
            const std::int64_t begin = now;
            now += random.between(0, 1'000'000'000);
            records.push_back({number, operation.id, operation.engine, begin, now,
                               random.between(0, std::int64_t{1} << 40), random.between(0, 5000)});
        }
    }
    return records;
}

std::string text_of(const std::vector<TraceRecord>& records) {
    std::string text = header_line(header());
    std::int64_t step = 0;
    for (const TraceRecord& record : records) {
        if (record.step != step) {
            step = record.step;
            text += step_line(step);
        }
        append_record_line(record, text);
    }
    return text;
}

std::string failure(const std::string& text) {
    const test::ScratchFolder folder;
    return test::message_of<FileError>([&] { read_trace(folder.write("run.trace", text)); });
}

std::string lists_line(const std::string& lists) {
    return "{\"sequence\":0,\"layer\":2,\"query_page\":8,\"lists\":[" + lists + "]}\n";
}

std::string replaced(std::string text, std::string_view from, std::string_view to) {
    const std::size_t at = text.find(from);
    REQUIRE(at != std::string::npos);
    return text.replace(at, from.size(), to);
}

}  // namespace

TEST_CASE("what was written is read") {
    const test::ScratchFolder folder;
    for (std::uint64_t seed = 0; seed < 20; ++seed) {
        const std::vector<TraceRecord> records = random_records(seed, 2);
        const Trace trace = read_trace(folder.write("run.trace", text_of(records)));
        CHECK(trace.records == records);
        CHECK(trace.header.program == header().program);
        CHECK(trace.header.device == header().device);
        CHECK(trace.header.clock == header().clock);
        CHECK(trace.header.plan == header().plan);
        CHECK_FALSE(trace.truncated);
    }
}

TEST_CASE("lists of pages are read as they were written, beside the records") {
    const test::ScratchFolder folder;
    std::mt19937_64 random(9);
    std::string text = header_line(header());
    std::vector<ListsRecord> written;
    std::vector<TraceRecord> records;
    for (std::int64_t step = 1; step <= 3; ++step) {
        text += step_line(step);
        for (int line = 0; line < 40; ++line) {
            ListsRecord lists;
            lists.step = step;
            lists.sequence = static_cast<std::int64_t>(random() % 4096);
            lists.layer = static_cast<std::int64_t>(random() % 512);
            lists.query_page = 1 + static_cast<std::int64_t>(random() % 300);
            lists.length = 1 + static_cast<std::int64_t>(random() % std::min<std::int64_t>(lists.query_page, 40));
            for (std::uint64_t i = 0; i <= random() % 5; ++i) {
                std::vector<std::int32_t> all(lists.query_page);
                std::iota(all.begin(), all.end(), 0);
                std::sample(all.begin(), all.end(), std::back_inserter(lists.lists), lists.length, random);
            }
            append_lists_line(lists, text);
            written.push_back(lists);
            records.push_back(
                {step, {.part = static_cast<std::uint32_t>(line)}, schedule::Engine::kCompute, 1, 2, 0, 0});
            append_record_line(records.back(), text);
        }
    }
    const auto path = folder.write("run.trace", text);
    const Trace trace = read_trace(path);
    CHECK(trace.lists == written);
    CHECK(trace.records == records);
    TraceReader deaf(path);  // who does not ask for lists does not see them
    std::size_t count = 0;
    for (TraceRecord record; deaf.next(record); ++count) {
    }
    CHECK(count == records.size());
}

TEST_CASE("a trace of version 1, which had no lists, is read") {
    const test::ScratchFolder folder;
    const std::vector<TraceRecord> records = random_records(3, 1);
    CHECK(read_trace(folder.write("run.trace", replaced(text_of(records), "\"version\":2", "\"version\":1"))).records ==
          records);
}

TEST_CASE("a trace of an older program, which had fewer kinds, is read") {
    const test::ScratchFolder folder;
    const std::vector<TraceRecord> records = {
        {1, {.kind = schedule::Kind::kFetch, .part = 3}, schedule::Engine::kHostToDevice, 10, 20, 4096, 2}};
    CHECK(read_trace(folder.write("run.trace", replaced(text_of(records), ",\"prefetch\"]", "]"))).records == records);
}

TEST_CASE("lists are written as ranges") {
    std::string line;
    append_lists_line({1, 2, 3, 16, 5, {0, 3, 4, 5, 12, 1, 2, 3, 4, 5}}, line);
    CHECK(line == "{\"sequence\":2,\"layer\":3,\"query_page\":16,\"lists\":[\"0 3-5 12\",\"1-5\"]}\n");
}

TEST_CASE("a trace cut anywhere after its header is read up to its last whole line") {
    const test::ScratchFolder folder;
    const std::vector<TraceRecord> records = {
        {1, {.kind = schedule::Kind::kFetch, .part = 3}, schedule::Engine::kHostToDevice, 10, 20, 4096, 2},
        {2, {.chunk = 7}, schedule::Engine::kCompute, 20, 20, 0, 0}};
    const std::string text = text_of(records);
    const std::size_t header_end = header_line(header()).size();
    for (std::size_t size = header_end; size <= text.size(); ++size) {
        CAPTURE(size);
        const std::string part = text.substr(0, size);
        const Trace trace = read_trace(folder.write("run.trace", part));
        const auto lines = std::count(part.begin() + static_cast<std::ptrdiff_t>(header_end), part.end(), '\n');
        CHECK(trace.records.size() == static_cast<std::size_t>(lines) / 2);  // a step line before each
        CHECK(std::equal(trace.records.begin(), trace.records.end(), records.begin()));
        CHECK(trace.truncated == (part.back() != '\n'));
    }
    CHECK(failure(text.substr(0, header_end - 1)).find("header") != std::string::npos);
}

TEST_CASE("what is no trace of this version is refused, with its line") {
    const std::string text = text_of(random_records(1, 1));
    const std::string first = text.substr(0, header_line(header()).size());
    struct Bad {
        std::string text;
        std::initializer_list<std::string_view> fragments;
    };
    const Bad cases[] = {
        {"", {"no whole line", "header"}},
        {"garbage\n", {"line 1"}},
        {"[1, 2]\n", {"line 1", "an object"}},
        {replaced(text, "oomb-trace", "oomb-plan"), {"line 1", "format", "oomb-trace"}},
        {replaced(text, "\"version\":2", "\"version\":3"), {"line 1", "version: found 3", "version 1 or 2"}},
        {replaced(text, "host_to_device", "sideways"), {"engines", "the version that wrote it"}},
        {replaced(text, "\"fetch\"", "\"catch\""), {"kinds", "the version that wrote it"}},
        {replaced(text, "\"prefetch\"", "\"prefetch\",\"more\""), {"kinds", "the version that wrote it"}},
        {first + "[\"0000000000000000\",0,1,1,0,0]\n", {"line 2", "a step before its operations"}},
        {first + step_line(2) + step_line(2), {"line 3", "step: found 2"}},
        {first + "{\"step\":1,\"more\":2}\n", {"line 2", "a step line"}},
        {first + step_line(1) + "[\"0000000000000000\",0,1,1,0]\n", {"line 3", "begin, duration"}},
        {first + step_line(1) + "[\"00000000000000\",0,1,1,0,0]\n", {"16 hexadecimal digits"}},
        {first + step_line(1) + "[\"000000000000000g\",0,1,1,0,0]\n", {"16 hexadecimal digits"}},
        {first + step_line(1) + "[\"0000000001f80000\",0,1,1,0,0]\n", {"whose kind the header names"}},
        {first + step_line(1) + "[\"0000000000000000\",5,1,1,0,0]\n", {"line 3", "found 5"}},
        {first + step_line(1) + "[\"0000000000000000\",0,-1,1,0,0]\n", {"line 3", "found -1"}},
        {first + step_line(1) + "[\"0000000000000000\",0,1,-1,0,0]\n", {"line 3", "found -1"}},
        {first + step_line(1) + "[\"0000000000000000\",0,1,1,-4,0]\n", {"line 3", "found -4"}},
        {first + step_line(1) + "[\"0000000000000000\",0,1,1,0,1.5]\n", {"line 3", "found 1.5"}},
        {first + step_line(1) + "\n", {"line 3"}},
        {first + lists_line("\"0\""), {"line 2", "a step before its lists"}},
        {first + step_line(1) + lists_line(""), {"line 3", "lists", "a list for each query page"}},
        {first + step_line(1) + lists_line("\"\""), {"lists[0]", "ascending pages below 8"}},
        {first + step_line(1) + lists_line("\"8\""), {"ascending pages below 8"}},
        {first + step_line(1) + lists_line("\"3 3\""), {"ascending pages below 8"}},
        {first + step_line(1) + lists_line("\"3-3\""), {"ascending pages below 8"}},
        {first + step_line(1) + lists_line("\"3-\""), {"ascending pages below 8"}},
        {first + step_line(1) + lists_line("\"3  4\""), {"ascending pages below 8"}},
        {first + step_line(1) + lists_line("\"3 \""), {"one blank between"}},
        {first + step_line(1) + lists_line("\"3,4\""), {"one blank between"}},
        {first + step_line(1) + lists_line("\"-1\""), {"ascending pages below 8"}},
        {first + step_line(1) + lists_line("\"1 2\",\"3\""), {"lists[1]", "2 pages, as many as"}},
        {first + step_line(1) + lists_line("7"), {"lists[0]: found 7"}},
        {first + step_line(1) + "{\"sequence\":0,\"lists\":[\"0\"]}\n", {"sequence, layer, query_page and lists"}},
        {first + step_line(1) + "{\"sequence\":0,\"layer\":0,\"query_page\":2000000000,\"lists\":[\"0-1999999999\"]}\n",
         {"at most 4194304 pages"}},
    };
    for (const Bad& bad : cases) {
        CAPTURE(bad.text);
        test::check_contains(failure(bad.text), bad.fragments);
    }
}

// Lines as they are written take another way through the reader than other ways to write them.
TEST_CASE("however a line is written, it is read as JSON is") {
    const test::ScratchFolder folder;
    const std::vector<TraceRecord> records = random_records(3, 2);
    std::string spaced = text_of(records);
    for (std::size_t at = header_line(header()).size(); (at = spaced.find(',', at)) != std::string::npos; at += 2) {
        spaced.replace(at, 1, ", ");
    }
    CHECK(read_trace(folder.write("run.trace", spaced)).records == records);

    std::mt19937_64 random(11);
    const std::string start = header_line(header()) + step_line(1), alphabet = "0123456789abcdef-+.,[]\"\\ eE";
    int files = 0;
    int accepted = 0;
    for (int i = 0; i < 2000; ++i) {
        std::string line = "[\"0000000000300000\",1,1523000,81200,4096,0]";
        for (std::uint64_t change = random() % 3; change > 0; --change) {
            const std::size_t at = random() % line.size();
            const char letter = alphabet[random() % alphabet.size()];
            random() % 2 == 0 ? line.replace(at, 1, 1, letter) : line.insert(at, 1, letter);
        }
        CAPTURE(line);
        // A space at the end is nothing to JSON, and keeps the line from being what is written.
        const auto read = [&](const std::string& text) -> std::optional<TraceRecord> {
            try {
                const std::filesystem::path path = folder.path() / std::to_string(++files);
                std::ofstream(path) << start << text << "\n";  // write_text_file() waits for the disk
                return read_trace(path).records.at(0);
            } catch (const FileError&) {
                return std::nullopt;
            }
        };
        const auto quick = read(line);
        CHECK(quick == read(line + " "));
        accepted += quick ? 1 : 0;
    }
    CHECK(accepted > 500);
}

TEST_CASE("an absent file is named") {
    const std::string message = test::message_of<FileError>([] { read_trace("/nowhere/run.trace"); });
    CHECK(message.find("/nowhere/run.trace") != std::string::npos);
}

}  // namespace oomb::trace
