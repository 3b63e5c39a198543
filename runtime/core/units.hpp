#pragma once
// Sizes in flags and output. Bytes: KiB, MiB, GiB, TiB are powers of 2^10; KB, MB, GB, TB powers of 10^3; never mixed.
// Tokens: K = 2^10, M = 2^20. Output shows the short and the exact number.

#include <cstdint>
#include <string>
#include <string_view>

namespace oomb {

constexpr std::int64_t kKiB = std::int64_t{1} << 10;
constexpr std::int64_t kMiB = std::int64_t{1} << 20;
constexpr std::int64_t kGiB = std::int64_t{1} << 30;
constexpr std::int64_t kTiB = std::int64_t{1} << 40;

enum class Zero : std::uint8_t { kAllowed, kRefused };

// "139GiB", "512MiB", "80GB", "4096". `flag` is named in the message ("--gpu-memory"). Throws UsageError for a missing
// or negative number, a fraction, an unknown suffix, a value past 2^63 - 1, and zero where it is refused.
std::int64_t parse_bytes(std::string_view flag, std::string_view text, Zero zero = Zero::kRefused);
// "128K", "1M", "2048"; errors as above.
std::int64_t parse_tokens(std::string_view flag, std::string_view text, Zero zero = Zero::kRefused);

std::string format_count(std::int64_t count);            // "60,129,542,144"
std::string format_bytes_short(std::int64_t bytes);      // "56.0 GiB", "512 bytes"
std::string format_bytes(std::int64_t bytes);            // "56.0 GiB (60,129,542,144 bytes)"
std::string format_tokens_short(std::int64_t tokens);    // "128K", "97.7K", "512"
std::string tokens_as_typed(std::int64_t tokens);        // "128K", "100000": exact, for parse_tokens
std::string format_tokens(std::int64_t tokens);          // "128K (131,072)", "512"
std::string format_bytes_per_second(double per_second);  // "55.4 GB/s": decimal, as data sheets count
std::string format_duration(double seconds);             // "850 ns", "12.3 ms", "4.20 s", "3 min 07 s", "2 h 05 min"

}  // namespace oomb
