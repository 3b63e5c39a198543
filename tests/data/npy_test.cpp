#include "trainer/data/npy.hpp"

#include <doctest/doctest.h>

#include <cstring>

#include "runtime/core/error.hpp"
#include "tests/data/token_files.hpp"

namespace oomb::trainer {
namespace {

NpyTokens parse(const std::string& file) {
    return parse_npy(std::as_bytes(std::span(file.data(), file.size())), "x.npy");
}

std::string refusal(const std::string& file) {
    const std::string message = message_of<FileError>([&] { parse(file); });
    CHECK(mentions(message, {"x.npy: "}));
    return message;
}

}  // namespace

TEST_CASE("versions 1 to 3, both types, any length") {
    for (const int version : {1, 2, 3}) {
        CAPTURE(version);
        const NpyTokens npy16 = parse(npy(version, npy_header("<u2", "(3,)"), "aabbcc"));
        CHECK(npy16.tokens == 3);
        CHECK(npy16.element_bytes == 2);
        const NpyTokens npy32 = parse(npy(version, npy_header("<u4", "(1,)"), "aaaa"));
        CHECK(npy32.element_bytes == 4);
        CHECK(npy32.data_begin_bytes == (version == 1 ? 10 : 12) + static_cast<int>(npy_header("<u4", "(1,)").size()));
    }
    CHECK(parse(npy(1, npy_header("<u2", "(0,)"), "")).tokens == 0);
    // Key order, quotes, blanks and the last comma are free in a Python literal.
    CHECK(parse(npy(1, R"({"shape":(2,),"fortran_order":False,"descr":"<u2"})", "aabb")).tokens == 2);
}

TEST_CASE("other arrays are refused with what is expected") {
    for (const char* descr : {"<i8", "<i4", "<f4", "|u1", "<u8", "=u2", "|O", ""}) {
        CAPTURE(descr);
        CHECK(mentions(refusal(npy(1, npy_header(descr, "(1,)"), "aaaaaaaa")), {descr, "uint16", "uint32"}));
    }
    CHECK(mentions(refusal(npy(1, npy_header(">u2", "(1,)"), "aa")), {"big-endian"}));
    CHECK(mentions(refusal(npy(1, npy_header("<u2", "(1,)", "True"), "aa")), {"fortran_order", "True"}));
    for (const char* shape :
         {"()", "(1, 1)", "(1,1,)", "(-1,)", "(1)", "(x,)", "(,)", "(99999999999999999999,)", "1"}) {
        CAPTURE(shape);
        CHECK(mentions(refusal(npy(1, npy_header("<u2", shape), "aa")), {"shape", "one dimension"}));
    }
}

TEST_CASE("files that are shorter or longer than the header says are refused") {
    CHECK(mentions(refusal(npy(1, npy_header("<u2", "(3,)"), "aabbc")), {"3 tokens", "5 bytes"}));
    CHECK(mentions(refusal(npy(1, npy_header("<u2", "(3,)"), "aabb")), {"3 tokens", "4 bytes"}));
    CHECK(mentions(refusal(npy(1, npy_header("<u2", "(3,)"), "aabbccdd")), {"3 tokens", "8 bytes"}));
    // 2^62 tokens of 4 bytes are 0 bytes modulo 2^64.
    CHECK(mentions(refusal(npy(1, npy_header("<u4", "(4611686018427387904,)"), "")), {"4611686018427387904 tokens"}));
    CHECK(mentions(refusal(npy(1, npy_header("<u2", "(1,)"), "aa", 5000)), {"5000", "truncated"}));
    CHECK(mentions(refusal(npy(2, npy_header("<u2", "(1,)"), "aa", 4294967295)), {"4294967295"}));
}

TEST_CASE("damaged signatures, versions and literals are refused") {
    CHECK(mentions(refusal(""), {"signature"}));
    CHECK(mentions(refusal("\x93NUMPX\x01\x00"), {"signature"}));
    CHECK(mentions(refusal("\x93NUMPY"), {"signature"}));
    CHECK(mentions(refusal(std::string("\x93NUMPY\x01\x00\x01", 9)), {"truncated"}));
    CHECK(mentions(refusal(npy(4, npy_header("<u2", "(1,)"), "aa")), {"version 4"}));
    const std::string good = npy_header("<u2", "(1,)");
    for (const std::string& header :
         {std::string(""), std::string("{"), std::string("{'descr'"), std::string("{'descr': '<u2"),
          std::string("{'shape': (1"), std::string("{'a': 'b' 'c': 'd'}"), good + "x", std::string("{'a': \n"),
          std::string("{'descr': '<u2', 'descr': '<u2', 'shape': (1,)}"),
          std::string("{'descr': '<u2', 'shape': (1,)}"),
          std::string("{'descr': '<u2', 'fortran_order': False, 'shape': (1,), 'more': 1}")}) {
        CAPTURE(header);
        refusal(npy(1, header, "aa"));
    }
}

TEST_CASE("an array of losses: header, alignment of the data, values") {
    const std::vector<float> losses = {1.5F, -2.0F, 0.25F};
    const std::string file = npy_of_losses(losses);
    const std::size_t data = file.size() - 3 * sizeof(float);
    CHECK(data % 64 == 0);
    CHECK(file.starts_with(std::string("\x93NUMPY\1\0", 8)));
    CHECK(static_cast<unsigned char>(file[8]) + 256 * static_cast<unsigned char>(file[9]) == data - 10);
    CHECK(mentions(file, {"'descr': '<f4'", "'fortran_order': False", "'shape': (3,)"}));
    CHECK(file[data - 1] == '\n');
    CHECK(std::memcmp(file.data() + data, losses.data(), 3 * sizeof(float)) == 0);
    CHECK(npy_of_losses({}).size() % 64 == 0);
}

}  // namespace oomb::trainer
