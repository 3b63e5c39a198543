#include "runtime/trace/trace.hpp"

#include <doctest/doctest.h>

#include <fstream>
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
        {replaced(text, "\"version\":1", "\"version\":2"), {"line 1", "version: found 2", "version 1"}},
        {replaced(text, "host_to_device", "sideways"), {"engines", "the version that wrote it"}},
        {replaced(text, "\"fetch\"", "\"catch\""), {"kinds", "the version that wrote it"}},
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
