#include "trainer/data/sha256.hpp"

#include <doctest/doctest.h>

#include "runtime/core/error.hpp"
#include "tests/weights/files.hpp"

namespace oomb::trainer {
namespace {

std::string digest_of(std::string_view text, std::size_t piece_bytes = ~std::size_t{0}) {
    Sha256 hash;
    while (!text.empty()) {
        const std::string_view piece = text.substr(0, piece_bytes);
        hash.update(std::as_bytes(std::span(piece.data(), piece.size())));
        text.remove_prefix(piece.size());
    }
    return hash.hex_digest();
}

}  // namespace

TEST_CASE("the examples published with FIPS 180-4") {
    CHECK(digest_of("") == "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
    CHECK(digest_of("abc") == "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
    CHECK(digest_of("abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq") ==
          "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1");
    CHECK(digest_of(std::string(1'000'000, 'a')) == "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
}

TEST_CASE("pieces of any size give the digest of the whole, around every padding boundary") {
    for (std::size_t size = 0; size < 200; ++size) {
        const std::string text(size, 'q');
        const std::string whole = digest_of(text);
        CHECK(digest_of(text, 1) == whole);
        CHECK(digest_of(text, 63) == whole);
        CHECK(digest_of(text, 65) == whole);
    }
}

TEST_CASE("files") {
    const TemporaryFolder folder;
    write_file(folder / "x", "abc");
    CHECK(sha256_of_file(folder / "x") == digest_of("abc"));
    write_file(folder / "empty", "");
    CHECK(sha256_of_file(folder / "empty") == digest_of(""));
    CHECK_THROWS_AS(sha256_of_file(folder / "absent"), FileError);
}

}  // namespace oomb::trainer
