#include "runtime/core/units.hpp"

#include <doctest/doctest.h>

#include <limits>

#include "runtime/core/error.hpp"
#include "tests/core/messages.hpp"

namespace oomb {

TEST_CASE("byte sizes are read with their unit") {
    const std::pair<std::string_view, std::int64_t> sizes[] = {
        {"1", 1},
        {"4096", 4096},
        {"007", 7},
        {"3KiB", 3072},
        {"512MiB", 1LL << 29},
        {"139GiB", 149250113536},
        {"2TiB", 1LL << 41},
        {"80GB", 80'000'000'000},
        {"1KB", 1000},
        {"5MB", 5'000'000},
        {"1TB", 1'000'000'000'000},
        {"9223372036854775807", std::numeric_limits<std::int64_t>::max()},
        {"8388607TiB", 8388607LL << 40}};
    for (const auto& [text, bytes] : sizes) {
        CAPTURE(text);
        CHECK(parse_bytes("--gpu-memory", text) == bytes);
    }
}

TEST_CASE("token counts are read with their unit") {
    CHECK(parse_tokens("--context", "2048") == 2048);
    CHECK(parse_tokens("--context", "128K") == 131072);
    CHECK(parse_tokens("--context", "1M") == 1048576);
    CHECK(parse_tokens("--context", "0", Zero::kAllowed) == 0);
}

TEST_CASE("a wrong size names the flag, the text and what is allowed") {
    struct Bad {
        std::string_view text;
        std::string_view fragment;
    };
    const Bad bytes[] = {{"", "does not begin with a digit"},
                         {"GiB", "does not begin with a digit"},
                         {" 1", "does not begin with a digit"},
                         {"+1", "does not begin with a digit"},
                         {"-5GiB", "negative"},
                         {"0", "zero"},
                         {"0GiB", "zero"},
                         {"1.5GiB", "\".5GiB\" is unknown"},
                         {"1gib", "\"gib\" is unknown; did you mean 1GiB? allowed is"},
                         {"1G", "\"G\" is unknown; did you mean 1GiB?"},
                         {"1 GiB", "\" GiB\" is unknown"},
                         {"1K", "\"K\" is unknown; did you mean 1KiB?"},
                         {"0x10", "\"x10\" is unknown; allowed is"},
                         {"9223372036854775808", "2^63"},
                         {"99999999999999999999999", "2^63"},
                         {"8388608TiB", "2^63"}};
    for (const Bad& bad : bytes) {
        CAPTURE(bad.text);
        const std::string message = test::message_of<UsageError>([&] { parse_bytes("--gpu-memory", bad.text); });
        test::check_contains(message,
                             {"--gpu-memory", fmt::format("\"{}\"", bad.text), bad.fragment, "allowed is", "GiB"});
    }
    const Bad tokens[] = {{"", "digit"},
                          {"-1", "negative"},
                          {"1G", "\"G\" is unknown"},
                          {"1KiB", "\"KiB\" is unknown; did you mean 1K?"},
                          {"0K", "zero"},
                          {"9007199254740992K", "2^63"}};
    for (const Bad& bad : tokens) {
        CAPTURE(bad.text);
        const std::string message = test::message_of<UsageError>([&] { parse_tokens("--context", bad.text); });
        test::check_contains(message, {"--context", fmt::format("\"{}\"", bad.text), bad.fragment, "128K"});
    }
}

TEST_CASE("sizes are shown short and exact") {
    CHECK(format_bytes(60'129'542'144) == "56.0 GiB (60,129,542,144 bytes)");
    CHECK(format_bytes(0) == "0 bytes");
    CHECK(format_bytes(1) == "1 byte");
    CHECK(format_bytes(1023) == "1023 bytes");
    CHECK(format_bytes(1024) == "1.0 KiB (1,024 bytes)");
    CHECK(format_bytes_short(kMiB - 1) == "1.0 MiB");  // never "1024.0 KiB"
    CHECK(format_bytes_short(kMiB - kKiB) == "1023.0 KiB");
    CHECK(format_bytes_short(-3 * kGiB) == "-3.0 GiB");
    CHECK(format_bytes_short(std::numeric_limits<std::int64_t>::max()) == "8388608.0 TiB");
    CHECK(format_tokens(131072) == "128K (131,072)");
    CHECK(format_tokens(1048576) == "1M (1,048,576)");
    CHECK(format_tokens(1536 * 1024) == "1536K (1,572,864)");
    CHECK(format_tokens(100'000) == "97.7K (100,000)");
    CHECK(format_tokens(2'000'000) == "1.9M (2,000,000)");
    CHECK(format_tokens(512) == "512");
    CHECK(format_tokens(0) == "0");
    CHECK(format_count(999) == "999");
    CHECK(format_count(-1000) == "-1,000");
    CHECK(format_count(-999) == "-999");
    CHECK(format_bytes_per_second(55.4e9) == "55.4 GB/s");
    CHECK(format_bytes_per_second(4.1e12) == "4.1 TB/s");
}

TEST_CASE("durations carry their unit at every scale") {
    CHECK(format_duration(0) == "0 ns");
    CHECK(format_duration(850e-9) == "850 ns");
    CHECK(format_duration(999.7e-9) == "1.00 us");
    CHECK(format_duration(12.34e-3) == "12.3 ms");
    CHECK(format_duration(4.2) == "4.20 s");
    CHECK(format_duration(59.96) == "1 min 00 s");
    CHECK(format_duration(187) == "3 min 07 s");
    CHECK(format_duration(3599.7) == "1 h 00 min");
    CHECK(format_duration(7500) == "2 h 05 min");
    CHECK(format_duration(86400 * 3 + 3600 * 4) == "3 d 04 h");
    CHECK(format_duration(-0.5) == "-500 ms");
    CHECK(format_duration(std::numeric_limits<double>::infinity()) == "unknown");
}

}  // namespace oomb
