#include "trainer/data/sidecar.hpp"

#include <algorithm>
#include <limits>

#include "runtime/core/error.hpp"
#include "runtime/core/json.hpp"
#include "runtime/core/units.hpp"
#include "trainer/data/sha256.hpp"

namespace oomb::trainer {
namespace {

namespace fs = std::filesystem;

constexpr std::int64_t kFormatVersion = 1;
constexpr std::int64_t kMaxSidecarBytes = 512 * kMiB;  // some ten million document offsets

void check_against_source(const JsonNode& root, const TokenSource& source) {
    const std::int64_t version = root.at("format_version").as_integer(0);
    if (version != kFormatVersion) {
        fail<FileError>("{}: format_version {}, version {} is read; tokenise again with this version's tools",
                        root.file(), version, kFormatVersion);
    }
    const std::int64_t tokens = root.at("tokens").as_integer(0);
    if (tokens != source.tokens()) {
        fail<FileError>("{}: says {} tokens, but {} holds {}; the two files do not belong together", root.file(),
                        tokens, source.name(), source.tokens());
    }
    const std::string found = root.at("dtype").as_string();
    const char* expected = source.element_bytes() == 2 ? "uint16" : "uint32";
    if (found != expected) {
        fail<FileError>("{}: says dtype {}, but {} holds {}; the two files do not belong together", root.file(),
                        quoted(Json(found)), source.name(), expected);
    }
}

// An array of [documents + 1] offsets, or a count.
void read_documents(const JsonNode& node, std::int64_t tokens, TokenSidecar& sidecar) {
    if (!node.value().is_array()) {
        sidecar.documents = node.as_integer(0);
        return;
    }
    std::vector<std::int64_t>& offsets = sidecar.document_offsets;
    for (std::size_t i = 0; i < node.size(); ++i) {
        offsets.push_back(node.item(i).as_integer(0));
    }
    if (offsets.empty() || offsets.front() != 0 || offsets.back() != tokens ||
        !std::is_sorted(offsets.begin(), offsets.end())) {
        fail<FileError>("{}: expected offsets in order from 0 to the {} tokens of the file", node.place(), tokens);
    }
    sidecar.documents = static_cast<std::int64_t>(offsets.size()) - 1;
}

std::string read_hash(const JsonNode& root) {
    const std::string hash = root.string_or("tokenizer_sha256", "");
    const bool is_hash = hash.size() == 64 && hash.find_first_not_of("0123456789abcdef") == std::string::npos;
    if (!hash.empty() && !is_hash) {
        root.at("tokenizer_sha256").refuse("64 lower-case hexadecimal digits");
    }
    return hash;
}

}  // namespace

std::optional<TokenSidecar> read_sidecar(const fs::path& token_file, const TokenSource& source) {
    const fs::path path = token_file.string() + ".json";
    std::error_code error;
    if (source.element_bytes() == 1 || !fs::exists(fs::symlink_status(path, error))) {
        return std::nullopt;
    }
    const Json json = read_json_file(path, {.max_bytes = kMaxSidecarBytes, .max_depth = 8});
    const JsonNode root(json, path.string());
    check_against_source(root, source);
    TokenSidecar sidecar;
    read_documents(root.at("documents"), source.tokens(), sidecar);
    sidecar.tokenizer_sha256 = read_hash(root);
    if (root.has("eos_token_id")) {
        sidecar.eos_token_id = root.at("eos_token_id").as_integer(0, std::numeric_limits<std::int32_t>::max());
    }
    return sidecar;
}

TokenizerCheck check_tokenizer(const TokenSidecar& sidecar, const fs::path& token_file, const fs::path& model_folder) {
    if (sidecar.tokenizer_sha256.empty()) {
        return TokenizerCheck::kNotRecorded;
    }
    const fs::path tokenizer = model_folder / "tokenizer.json";
    std::error_code error;
    if (!fs::exists(tokenizer, error)) {
        return TokenizerCheck::kModelHasNoTokenizer;
    }
    const std::string found = sha256_of_file(tokenizer);
    if (found != sidecar.tokenizer_sha256) {
        fail<FileError>(
            "{}: tokenised with another tokenizer than the model's: its hash is {}, {} has {}; tokenise the "
            "text again for this model",
            token_file.string(), sidecar.tokenizer_sha256, tokenizer.string(), found);
    }
    return TokenizerCheck::kSame;
}

}  // namespace oomb::trainer
