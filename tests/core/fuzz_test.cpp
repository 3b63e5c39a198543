#include <doctest/doctest.h>

#include <random>
#include <string>
#include <vector>

#include "runtime/core/text_file.hpp"
#include "tests/core/configs.hpp"
#include "tests/core/fuzz_entry.hpp"

namespace oomb {

namespace {

bool accepts(const std::string& text) {
    return test::read_untrusted_bytes(reinterpret_cast<const std::uint8_t*>(text.data()), text.size());
}

std::vector<std::string> seeds() {
    std::vector<std::string> texts;
    for (const std::string_view folder : {"models", "hardware"}) {
        for (const auto& entry : std::filesystem::directory_iterator(test::source_folder() / folder)) {
            if (entry.path().extension() == ".json") {
                texts.push_back(read_text_file(entry.path(), 1 << 20));
            }
        }
    }
    texts.push_back(test::changed("llama", R"({"rope_scaling": {"type": "yarn", "factor": 4.0, "mscale": 1.0,
        "mscale_all_dim": 0.5, "beta_fast": 32, "beta_slow": 1, "truncate": false}})"));
    return texts;
}

// A byte replaced, a piece removed, doubled, or swapped for one of the values that parsers trip over.
std::string mutated(std::string text, std::mt19937& random) {
    static constexpr std::string_view kTokens[] = {
        "0",    "-1",   "1e400",  "9223372036854775808", "null",    "[]",  "{}",
        "true", "\"\"", "1e-320", "2147483647",          "\\u0000", "0.1", ","};
    const auto below = [&random](std::size_t bound) { return static_cast<std::size_t>(random()) % bound; };
    const std::size_t at = below(text.size());
    const std::size_t length = std::min(below(12), text.size() - at);
    switch (below(4)) {
        case 0:
            text[at] = static_cast<char>(below(256));
            return text;
        case 1:
            return text.erase(at, length);
        case 2:
            return text.insert(at, text.substr(at, length));
        default:
            return text.replace(at, length, kTokens[below(std::size(kTokens))]);
    }
}

// A number in the text swapped for another, so that many mutations stay valid JSON and reach the checks behind it.
std::string with_other_number(std::string text, std::mt19937& random) {
    static constexpr std::string_view kNumbers[] = {"0",    "1",    "-1",  "2",     "3",          "1.0",
                                                    "0.5",  "1e-9", "1e9", "65536", "2147483647", "9223372036854775807",
                                                    "1e30", "1e308"};
    std::vector<std::size_t> starts;
    for (std::size_t i = 1; i < text.size(); ++i) {
        if (text[i - 1] == ' ' && text[i] >= '0' && text[i] <= '9') {
            starts.push_back(i);
        }
    }
    if (starts.empty()) {
        return text;
    }
    const std::size_t at = starts[random() % starts.size()];
    const std::size_t end = std::min(text.find_first_of(",\n}", at), text.size());
    return text.replace(at, end - at, kNumbers[random() % std::size(kNumbers)]);
}

}  // namespace

TEST_CASE("any bytes are read or refused with an error of ours") {
    std::mt19937 random(20261129);
    int accepted = 0;
    int refused = 0;
    for (const std::string& seed : seeds()) {
        REQUIRE(accepts(seed));
        for (int round = 0; round < 1500; ++round) {
            std::string text = round % 2 == 0 ? mutated(seed, random) : with_other_number(seed, random);
            if (round % 3 == 0 && !text.empty()) {
                text = mutated(std::move(text), random);
            }
            (accepts(text) ? accepted : refused) += 1;
        }
    }
    // Both paths must be walked, or the mutations have become useless.
    CHECK(accepted > 100);
    CHECK(refused > 1000);
}

TEST_CASE("bytes without structure are refused") {
    CHECK_FALSE(accepts(""));
    CHECK_FALSE(accepts(std::string("\0\0\0", 3)));
    CHECK_FALSE(accepts(std::string(1 << 20, '[')));
    CHECK_FALSE(accepts(std::string(1 << 20, '{')));
    CHECK_FALSE(accepts(std::string(1 << 20, '9')));
    CHECK(accepts("12"));  // a size
}

}  // namespace oomb
