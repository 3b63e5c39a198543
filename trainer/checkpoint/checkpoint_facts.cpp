#include "trainer/checkpoint/checkpoint_facts.hpp"

#include <fmt/format.h>

#define XXH_INLINE_ALL  // NOLINT(readability-identifier-naming): the library looks for it
#include <xxhash.h>

#include <algorithm>
#include <cmath>

#include "runtime/core/error.hpp"
#include "runtime/core/json.hpp"
#include "runtime/core/version.hpp"

namespace oomb::trainer {
namespace {

constexpr std::string_view kFormat = "oomb-checkpoint";
constexpr std::int64_t kVersion = 1;
constexpr std::int64_t kPieces = 64, kPieceTokens = 1024;

std::string hexadecimal(std::uint64_t value) {
    return fmt::format("{:016x}", value);
}

std::string read_hexadecimal(const JsonNode& node) {
    std::string text = node.as_string();
    if (text.size() != 16 || text.find_first_not_of("0123456789abcdef") != std::string::npos) {
        node.refuse("16 lower-case hexadecimal digits");
    }
    return text;
}

std::map<std::string, std::string> read_texts(const JsonNode& node, std::string (*read)(const JsonNode&)) {
    std::map<std::string, std::string> texts;
    for (const auto& [name, value] : node.as_object().value().items()) {
        texts[name] = read(node.at(name));
    }
    return texts;
}

}  // namespace

std::string checksum_of(std::span<const std::byte> bytes) {
    return hexadecimal(XXH3_64bits(bytes.data(), bytes.size()));
}

std::string fingerprint_of(const TokenSource& source) {
    const std::int64_t tokens = source.tokens();
    const std::int64_t length = std::min(tokens, kPieceTokens);
    const std::int64_t pieces = tokens <= kPieces * kPieceTokens ? (tokens + length - 1) / length : kPieces;
    std::vector<std::int32_t> piece(length);
    XXH3_state_t state;
    XXH3_64bits_reset(&state);
    for (std::int64_t i = 0; i < pieces; ++i) {
        // The last piece ends with the last token. 128 bits: tokens times 64 may pass 2^63.
        const auto offset =
            pieces == 1 ? 0 : static_cast<std::int64_t>(static_cast<__int128>(tokens - length) * i / (pieces - 1));
        source.read(offset, piece);
        XXH3_64bits_update(&state, piece.data(), piece.size() * sizeof(piece[0]));
    }
    return hexadecimal(XXH3_64bits_digest(&state));
}

std::string to_json(const CheckpointFacts& facts) {
    const BuildInfo& build = build_info();
    nlohmann::ordered_json json;
    json["format"] = kFormat;
    json["version"] = kVersion;
    json["oomb"] = {{"version", build.version}, {"commit", build.commit}};
    json["step"] = facts.step;
    json["sequences"] = facts.sequences;
    json["last_loss"] = facts.last_loss;
    json["data"] = {{"file", facts.data_file}, {"fingerprint", facts.data_fingerprint}};
    json["cursor"] = {{"epoch", facts.cursor.epoch},
                      {"offset_tokens", facts.cursor.offset_tokens},
                      {"source_tokens", facts.cursor.source_tokens}};
    json["settings"] = facts.settings;
    json["checksums"] = facts.checksums;
    return json.dump(2) + "\n";
}

CheckpointFacts read_checkpoint_facts(const std::filesystem::path& file) {
    const Json json = read_json_file(file);
    const JsonNode root(json, file.string());
    if (const std::string format = root.at("format").as_string(); format != kFormat) {
        root.at("format").refuse(fmt::format("\"{}\"", kFormat));
    }
    if (const std::int64_t version = root.at("version").as_integer(); version != kVersion) {
        fail<FileError>("{}: version {}, version {} is read; resume with the program that wrote it", file.string(),
                        version, kVersion);
    }
    const JsonNode data = root.at("data"), cursor = root.at("cursor");
    CheckpointFacts facts{.step = root.at("step").as_integer(),
                          .sequences = root.at("sequences").as_integer(),
                          .last_loss = root.at("last_loss").as_number(),
                          .data_file = data.at("file").as_string(),
                          .data_fingerprint = read_hexadecimal(data.at("fingerprint")),
                          .cursor = {.epoch = cursor.at("epoch").as_integer(0),
                                     .offset_tokens = cursor.at("offset_tokens").as_integer(0),
                                     .source_tokens = cursor.at("source_tokens").as_integer()},
                          .settings = {},
                          .checksums = {}};
    facts.settings = read_texts(root.at("settings"), [](const JsonNode& node) { return node.as_string(); });
    facts.checksums = read_texts(root.at("checksums"), read_hexadecimal);
    return facts;
}

std::vector<std::string> changed_settings(const CheckpointFacts& facts, const std::map<std::string, std::string>& now) {
    std::vector<std::string> lines;
    for (const auto& [flag, value] : now) {
        const auto before = facts.settings.find(flag);
        if (before == facts.settings.end()) {
            lines.push_back(fmt::format("{} is {} now; the checkpoint does not say what it was", flag, value));
        } else if (before->second != value) {
            lines.push_back(fmt::format("{} is {} now and was {}", flag, value, before->second));
        }
    }
    return lines;
}

}  // namespace oomb::trainer
