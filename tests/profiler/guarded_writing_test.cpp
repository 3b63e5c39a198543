// A recording whose writing fails: what comes after is left out, and the first failure is told.
#include "profiler/record/guarded_writing.hpp"

#include <doctest/doctest.h>

#include <vector>

#include "tests/core/messages.hpp"

namespace oomb::profiler {

TEST_CASE("the first failure ends the writing; it is told when it happens and at the end") {
    std::vector<std::string> told;
    GuardedWriting guarded([&](const std::string& failure) { told.push_back(failure); });
    int written = 0;
    guarded([&] { ++written; });
    CHECK_NOTHROW(guarded.tell());
    guarded([] { fail<FileError>("the disk is full"); });
    guarded([] { throw std::runtime_error("told too late"); });
    guarded([&] { ++written; });
    CHECK(written == 1);
    CHECK(told == std::vector<std::string>{"the disk is full"});
    CHECK(test::message_of<FileError>([&] { guarded.tell(); }) == "the disk is full");
}

TEST_CASE("nobody listens: a failure of any type is a FileError at the end") {
    GuardedWriting guarded;
    guarded([] { throw std::bad_alloc(); });
    CHECK_FALSE(test::message_of<FileError>([&] { guarded.tell(); }).empty());
}

}  // namespace oomb::profiler
