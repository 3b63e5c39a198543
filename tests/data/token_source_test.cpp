#include "trainer/data/token_source.hpp"

#include <doctest/doctest.h>

#include "runtime/core/error.hpp"
#include "tests/data/token_files.hpp"

namespace oomb::trainer {
namespace {

std::vector<std::int32_t> read(const TokenSource& source, std::int64_t offset, std::size_t count) {
    std::vector<std::int32_t> tokens(count);
    source.read(offset, tokens);
    return tokens;
}

}  // namespace

TEST_CASE("tokens of both types are read from any place") {
    const TemporaryFolder folder;
    write_file(folder / "a.npy", npy_of<std::uint16_t>({1, 2, 65535}));
    write_file(folder / "b.npy", npy_of<std::uint32_t>({7, 2147483647, 4294967295}));
    const auto short_tokens = open_token_source(folder / "a.npy");
    CHECK(short_tokens->tokens() == 3);
    CHECK(short_tokens->element_bytes() == 2);
    CHECK(read(*short_tokens, 1, 2) == std::vector<std::int32_t>{2, 65535});
    CHECK(read(*short_tokens, 3, 0).empty());
    const auto long_tokens = open_token_source(folder / "b.npy");
    CHECK(read(*long_tokens, 0, 2) == std::vector<std::int32_t>{7, 2147483647});
    CHECK(mentions(message_of<FileError>([&] { read(*long_tokens, 1, 2); }), {"b.npy", "4294967295", "offset 2"}));
}

TEST_CASE("any other file is bytes") {
    const TemporaryFolder folder;
    write_file(folder / "text.txt", std::string("a\0\xff\n", 4));
    const auto source = open_token_source(folder / "text.txt");
    CHECK(source->element_bytes() == 1);
    CHECK(read(*source, 0, 4) == std::vector<std::int32_t>{97, 0, 255, 10});
}

TEST_CASE("reading outside is a broken invariant, not a read") {
    const TemporaryFolder folder;
    write_file(folder / "text", "abc");
    const auto source = open_token_source(folder / "text");
    CHECK_THROWS_AS(read(*source, 1, 3), InternalError);
    CHECK_THROWS_AS(read(*source, -1, 1), InternalError);
    CHECK_THROWS_AS(read(*source, 4, 0), InternalError);
    CHECK_THROWS_AS(read(*source, std::int64_t{1} << 62, 1), InternalError);
}

TEST_CASE("missing and empty files are refused") {
    const TemporaryFolder folder;
    write_file(folder / "text", "");
    write_file(folder / "empty.npy", "");
    write_file(folder / "none.npy", npy_of<std::uint16_t>({}));
    write_file(folder / "damaged.npy", "1 2 3");
    CHECK(mentions(message_of<FileError>([&] { open_token_source(folder / "text"); }), {"/text", "empty"}));
    CHECK_THROWS_AS(open_token_source(folder / "empty.npy"), FileError);
    CHECK(mentions(message_of<FileError>([&] { open_token_source(folder / "none.npy"); }), {"no tokens"}));
    CHECK_THROWS_AS(open_token_source(folder / "damaged.npy"), FileError);
    CHECK_THROWS_AS(open_token_source(folder / "absent.npy"), FileError);
    CHECK_THROWS_AS(open_token_source(folder.path()), FileError);
}

}  // namespace oomb::trainer
