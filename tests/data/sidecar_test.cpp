#include "trainer/data/sidecar.hpp"

#include <doctest/doctest.h>

#include "runtime/core/error.hpp"
#include "tests/data/token_files.hpp"
#include "trainer/data/sha256.hpp"

namespace oomb::trainer {
namespace {

// Tokens 0 to 5 as uint16 with this sidecar.
struct Setting {
    TemporaryFolder folder;
    std::filesystem::path tokens = folder / "x.npy";

    explicit Setting(const std::string& sidecar) {
        write_file(tokens, npy_of<std::uint16_t>({0, 1, 2, 3, 4, 5}));
        write_file(folder / "x.npy.json", sidecar);
    }
    std::optional<TokenSidecar> read() const { return read_sidecar(tokens, *open_token_source(tokens)); }
    std::string refusal() const {
        const std::string message = message_of<FileError>([&] { read(); });
        CHECK(mentions(message, {"x.npy.json"}));
        return message;
    }
};

std::string sidecar_text(const std::string& documents, const std::string& more = "") {
    return R"({"format_version": 1, "tokens": 6, "dtype": "uint16", "documents": )" + documents + more + "}";
}

}  // namespace

TEST_CASE("offsets or a count of documents, with or without the tokenizer's hash") {
    const std::string hash(64, 'a');
    const Setting full(
        sidecar_text("[0, 2, 6]", ", \"tokenizer_sha256\": \"" + hash + "\", \"eos_token_id\": 2, \"x\": 1"));
    const TokenSidecar sidecar = full.read().value();
    CHECK(sidecar.document_offsets == std::vector<std::int64_t>{0, 2, 6});
    CHECK(sidecar.documents == 2);
    CHECK(sidecar.tokenizer_sha256 == hash);
    CHECK(sidecar.eos_token_id == 2);
    const TokenSidecar counted = Setting(sidecar_text("9", ", \"eos_token_id\": null")).read().value();
    CHECK(counted.documents == 9);
    CHECK(counted.document_offsets.empty());
    CHECK_FALSE(counted.eos_token_id.has_value());
}

TEST_CASE("no sidecar is no error, and byte-level text has none") {
    const Setting setting("{}");
    std::filesystem::remove(setting.folder / "x.npy.json");
    CHECK_FALSE(setting.read().has_value());
    write_file(setting.folder / "text", "abc");
    write_file(setting.folder / "text.json", "damaged");
    CHECK_FALSE(read_sidecar(setting.folder / "text", *open_token_source(setting.folder / "text")).has_value());
}

TEST_CASE("a sidecar of another file or version is refused") {
    CHECK(mentions(Setting(R"({"format_version": 2, "tokens": 6, "dtype": "uint16", "documents": 1})").refusal(),
                   {"format_version 2"}));
    CHECK(mentions(Setting(R"({"format_version": 1, "tokens": 7, "dtype": "uint16", "documents": 1})").refusal(),
                   {"7 tokens", "holds 6"}));
    CHECK(mentions(Setting(R"({"format_version": 1, "tokens": 6, "dtype": "uint32", "documents": 1})").refusal(),
                   {"uint32", "uint16"}));
}

TEST_CASE("damaged sidecars are refused") {
    for (const char* text : {"", "[]", "{\"format_version\": 1", "{}", R"({"format_version": "1"})",
                             R"({"format_version": 1, "format_version": 1})"}) {
        CAPTURE(text);
        Setting(text).refusal();
    }
    for (const char* documents :
         {"[]", "[0]", "[1, 6]", "[0, 5]", "[0, 4, 3, 6]", "[0, 7]", "[0, 1.5, 6]", "-1", "\"2\"", "null"}) {
        CAPTURE(documents);
        CHECK(mentions(Setting(sidecar_text(documents)).refusal(), {"documents"}));
    }
    CHECK(mentions(Setting(sidecar_text("1", ", \"tokenizer_sha256\": \"abc\"")).refusal(), {"hexadecimal"}));
    CHECK(mentions(Setting(sidecar_text("1", ", \"eos_token_id\": -1")).refusal(), {"eos_token_id"}));
}

TEST_CASE("the tokenizer must be the model's") {
    const TemporaryFolder model;
    TokenSidecar sidecar;
    CHECK(check_tokenizer(sidecar, "x.npy", model.path()) == TokenizerCheck::kNotRecorded);
    sidecar.tokenizer_sha256 = std::string(64, 'a');
    CHECK(check_tokenizer(sidecar, "x.npy", model.path()) == TokenizerCheck::kModelHasNoTokenizer);
    write_file(model / "tokenizer.json", "abc");
    CHECK(mentions(message_of<FileError>([&] { check_tokenizer(sidecar, "x.npy", model.path()); }),
                   {"x.npy", sidecar.tokenizer_sha256, "ba7816bf"}));
    sidecar.tokenizer_sha256 = sha256_of_file(model / "tokenizer.json");
    CHECK(check_tokenizer(sidecar, "x.npy", model.path()) == TokenizerCheck::kSame);
}

}  // namespace oomb::trainer
