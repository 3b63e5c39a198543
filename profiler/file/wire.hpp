#pragma once
// Bytes of a profile: blocks with a checksum, and in them records as differences from the record of the same kind
// before. docs/profile-format.md has the format.

#include <algorithm>
#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>

#include "profiler/file/records.hpp"

namespace oomb::profiler {

inline constexpr std::string_view kProfileMagic = "OOMBPROF";
inline constexpr std::uint32_t kProfileVersion = 2;  // written; 1 has fewer kinds of records and is read too
inline constexpr std::uint32_t kOldestProfileVersion = 1;
inline constexpr std::size_t kFileHeader_bytes = 16;   // magic, version, zero
inline constexpr std::size_t kBlockHeader_bytes = 16;  // kind, payload bytes, records, checksum; 32 bits each
inline constexpr std::size_t kMostBlock_bytes = std::size_t{4} << 20;
inline constexpr std::size_t kMostString_bytes = std::size_t{64} << 10;
inline constexpr std::int64_t kMostNumber = std::int64_t{1} << 61;

// Sums over a file that lies about itself end here instead of passing 2^63.
constexpr std::int64_t add_clamped(std::int64_t a, std::int64_t b) {
    return std::min(kMostNumber, a + b);
}

enum class BlockKind : std::uint32_t { kHeader = 1, kRecords = 2, kEnd = 3 };

// CRC-32 as zlib and PNG count it (polynomial 0xEDB88320), continued from `sum`.
std::uint32_t crc32(std::span<const std::byte> bytes, std::uint32_t sum = 0);

// Seven bits a byte, the lowest first; the high bit says that another one follows.
void append_varint(std::uint64_t value, std::string& bytes);

// Small differences of either sign become small numbers.
constexpr std::uint64_t zigzag(std::uint64_t difference) {
    return (difference << 1) ^ (0 - (difference >> 63));
}
constexpr std::uint64_t unzigzag(std::uint64_t value) {
    return (value >> 1) ^ (0 - (value & 1));
}

template <std::size_t... I>
constexpr std::size_t most_fields(std::index_sequence<I...> /*kinds*/) {
    return std::max({std::tuple_size_v<decltype(fields(std::declval<std::variant_alternative_t<I, Record>&>()))>...});
}
using FieldValues = std::array<std::uint64_t, most_fields(std::make_index_sequence<std::variant_size_v<Record>>{})>;
// The records before, one of each kind: what the next ones are differences from.
using Previous = std::array<FieldValues, std::variant_size_v<Record>>;

inline void for_each_field(auto&& tuple, const auto& visit) {
    std::apply([&](auto&... field) { (visit(field), ...); }, tuple);
}

}  // namespace oomb::profiler
