// The metrics file of a run that goes on.
#include "trainer/run/metrics.hpp"

#include <doctest/doctest.h>

#include "runtime/core/error.hpp"
#include "tests/weights/files.hpp"

namespace oomb::trainer {
namespace {

void write_steps(const std::filesystem::path& path, std::int64_t before, std::int64_t last) {
    MetricsFile file(path, before);
    for (std::int64_t step = before + 1; step <= last; ++step) {
        StepMetrics metrics;
        metrics.step = step;
        file.write(metrics);
    }
}

std::string steps_in(const std::filesystem::path& path) {
    const std::string text = read_file(path);
    std::string steps;
    for (std::size_t at = text.find("\"step\":"); at != std::string::npos; at = text.find("\"step\":", at + 1)) {
        steps += text.substr(at + 7, text.find(',', at) - at - 7) + " ";
    }
    return steps;
}

TEST_CASE("an existing file is refused, and continued by a run that goes on") {
    const TemporaryFolder folder;
    const std::filesystem::path path = folder / "metrics.jsonl";
    write_steps(path, 0, 12);
    CHECK_THROWS_AS(MetricsFile{path}, FileError);
    const std::string whole = read_file(path);
    write_steps(path, 12, 12);
    CHECK(read_file(path) == whole);
    write_steps(path, 9, 11);  // steps 10 to 12 run again
    CHECK(steps_in(path) == "1 2 3 4 5 6 7 8 9 10 11 ");
    write_file(path, read_file(path) + "{\"step\":12,\"lo");  // a crash while it was written
    write_steps(path, 11, 12);
    CHECK(read_file(path) == whole);
}

TEST_CASE("a run that goes on may begin its file, and leaves what is no metrics file alone") {
    const TemporaryFolder folder;
    write_steps(folder / "new.jsonl", 5, 6);
    CHECK(steps_in(folder / "new.jsonl") == "6 ");
    for (const char* text : {"notes\n", "{\"loss\": 1}\n", "[1]\n"}) {
        write_file(folder / "other", text);
        CHECK(mentions(message_of<FileError>([&] { MetricsFile(folder / "other", 5); }), {"other"}));
        CHECK(read_file(folder / "other") == text);
    }
}

}  // namespace
}  // namespace oomb::trainer
