#include <doctest/doctest.h>

#include <bit>
#include <cmath>

#include "runtime/core/error.hpp"
#include "runtime/core/model_shape.hpp"
#include "tests/core/configs.hpp"
#include "tests/core/rope_reference.hpp"

namespace oomb {

namespace {

ModelShape with_rope(std::int64_t head_dim, std::string_view rope, std::int64_t max_positions = 131072) {
    const std::string changes = fmt::format(
        R"({{"head_dim": {}, "max_position_embeddings": {}, "rope_theta": "<absent>", "rope_parameters": {}}})",
        head_dim, max_positions, rope);
    return parse_model_shape(test::changed("llama", changes), "config.json");
}

// Bits are equal, not close: at position 2^20 one unit in the last place of a frequency near 1 is an angle of 0.06.
// The bits of the reference are those of correctly rounded powers. With its AVX2 code PyTorch's pow may be off by one
// unit (it is in 1 of 64 frequencies at theta 1e6), so transformers agrees with itself no better than that.
void check_frequencies(const ModelShape& shape, const std::vector<std::uint32_t>& bits) {
    const RopeFrequencies found = rope_frequencies(shape);
    REQUIRE(found.inverse_frequency.size() == bits.size());
    for (std::size_t i = 0; i < bits.size(); ++i) {
        CAPTURE(i);
        CHECK(std::bit_cast<std::uint32_t>(found.inverse_frequency[i]) == bits[i]);
    }
}

// Attention factors are a logarithm and a few operations in float64 on either side: 4 units of 2^-53 cover them.
void check_attention_factor(const ModelShape& shape, double expected) {
    CHECK(std::abs(rope_frequencies(shape).attention_factor - expected) <= 4 * 0x1p-53 * expected);
}

}  // namespace

TEST_CASE("plain frequencies equal transformers' bit for bit") {
    namespace reference = rope_reference;
    check_frequencies(with_rope(64, R"({"rope_theta": 10000.0})"), reference::kDefault10000);
    check_frequencies(with_rope(64, R"({"rope_theta": 100000})"), reference::kDefault100000);
    check_frequencies(with_rope(128, R"({"rope_type": "default", "rope_theta": 500000.0})"), reference::kDefault500000);
    check_frequencies(with_rope(128, R"({"rope_type": "default", "rope_theta": 1000000.0})"),
                      reference::kDefault1000000);
    check_attention_factor(with_rope(64, R"({"rope_theta": 10000.0})"), 1.0);
}

TEST_CASE("linear scaling equals transformers'") {
    const ModelShape shape = with_rope(32, R"({"rope_type": "linear", "rope_theta": 10000.0, "factor": 3.0})");
    check_frequencies(shape, rope_reference::kLinear);
    check_attention_factor(shape, 1.0);
}

TEST_CASE("llama3 scaling equals transformers'") {
    check_frequencies(with_rope(128, R"({"rope_type": "llama3", "rope_theta": 500000.0, "factor": 8.0,
        "low_freq_factor": 1.0, "high_freq_factor": 4.0, "original_max_position_embeddings": 8192})"),
                      rope_reference::kLlama3Factor8);
    const ModelShape one_b = with_rope(64, R"({"rope_type": "llama3", "rope_theta": 500000.0, "factor": 32.0,
        "low_freq_factor": 1.0, "high_freq_factor": 4.0, "original_max_position_embeddings": 8192})");
    check_frequencies(one_b, rope_reference::kLlama3Factor32);
    check_attention_factor(one_b, 1.0);
}

TEST_CASE("YaRN equals transformers', with every way to its attention factor") {
    const ModelShape qwen = with_rope(128, R"({"rope_type": "yarn", "rope_theta": 1000000.0, "factor": 4.0,
        "original_max_position_embeddings": 32768})");
    check_frequencies(qwen, rope_reference::kYarnFactor4);
    check_attention_factor(qwen, 1.138629436111989);

    const ModelShape mscale = with_rope(64, R"({"rope_type": "yarn", "rope_theta": 10000.0, "factor": 40.0,
        "original_max_position_embeddings": 4096, "mscale": 1.0, "mscale_all_dim": 0.707, "beta_fast": 16, "beta_slow": 2})");
    check_frequencies(mscale, rope_reference::kYarnMscale);
    check_attention_factor(mscale, 1.0857263992561355);

    const ModelShape not_truncated = with_rope(32, R"({"rope_type": "yarn", "rope_theta": 150000.0, "factor": 32.0,
        "original_max_position_embeddings": 4096, "truncate": false})");
    check_frequencies(not_truncated, rope_reference::kYarnNotTruncated);
    check_attention_factor(not_truncated, 1.3465735902799727);

    const ModelShape given = with_rope(32, R"({"rope_type": "yarn", "rope_theta": 10000.0, "factor": 8.0,
        "original_max_position_embeddings": 2048, "attention_factor": 1.25})");
    check_frequencies(given, rope_reference::kYarnAttentionFactor);
    check_attention_factor(given, 1.25);
    // mscale alone changes nothing, as in transformers.
    check_attention_factor(with_rope(32, R"({"rope_type": "yarn", "rope_theta": 150000.0, "factor": 32.0,
        "original_max_position_embeddings": 4096, "mscale": 0.5})"),
                           1.3465735902799727);
}

TEST_CASE("the two spellings give the same RoPE") {
    const auto rope_of = [](std::string_view changes) {
        return parse_model_shape(test::changed("llama", changes), "config.json").rope;
    };
    const Rope yarn = rope_of(R"({"rope_theta": "<absent>", "rope_parameters": {"rope_type": "yarn", "rope_theta": 1e6,
        "factor": 4.0, "original_max_position_embeddings": 1024}})");
    CHECK(yarn.scaling == RopeScaling::kYarn);
    CHECK(yarn.factor == 4);
    CHECK(yarn.original_max_positions == 1024);
    const std::string_view same[] = {
        R"({"rope_theta": 1e6, "rope_scaling": {"type": "yarn", "factor": 4.0, "original_max_position_embeddings": 1024}})",
        R"({"rope_theta": 1e6, "rope_scaling": {"rope_type": "yarn", "type": "yarn", "factor": 4,
            "original_max_position_embeddings": 1024, "finetuned": true, "mscale": null}})",
        R"({"rope_theta": 1e6, "rope_scaling": {"type": "yarn", "factor": null, "original_max_position_embeddings": 1024}})",
        R"({"rope_theta": 1e6, "original_max_position_embeddings": 1024, "rope_scaling": {"type": "yarn", "factor": 4}})",
        R"({"rope_theta": 1e6, "rope_parameters": {"rope_type": "yarn", "factor": 4, "original_max_position_embeddings": 1024}})",
        R"({"rope_theta": 1e6, "rope_scaling": {"type": "yarn", "factor": 4.0, "original_max_position_embeddings": 1024},
            "rope_parameters": {"rope_theta": 1e6, "type": "yarn", "factor": 4, "original_max_position_embeddings": 1024}})"};
    for (const std::string_view spelling : same) {
        CAPTURE(spelling);
        CHECK(rope_of(spelling) == yarn);
    }
    // Without a length of its own the scaling starts from max_position_embeddings.
    CHECK(rope_of(R"({"rope_scaling": {"type": "yarn", "factor": 4.0}})").original_max_positions == 4096);
    CHECK(rope_of(R"({"rope_scaling": null, "rope_parameters": null})") == Rope{});
    CHECK(rope_of(R"({"rope_scaling": {"type": "default"}})") == Rope{});
}

TEST_CASE("an odd head_dim is a broken invariant") {
    ModelShape shape;
    shape.head_dim = 3;
    CHECK_THROWS_AS(rope_frequencies(shape), InternalError);
}

}  // namespace oomb
