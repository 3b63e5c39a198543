#include "profiler/file/wire.hpp"

namespace oomb::profiler {
namespace {

constexpr std::array<std::uint32_t, 256> crc_table() {
    std::array<std::uint32_t, 256> table{};
    for (std::uint32_t i = 0; i < 256; ++i) {
        std::uint32_t sum = i;
        for (int bit = 0; bit < 8; ++bit) {
            sum = (sum & 1) != 0 ? (sum >> 1) ^ 0xEDB88320U : sum >> 1;
        }
        table[i] = sum;
    }
    return table;
}
constexpr auto kCrcTable = crc_table();

}  // namespace

std::uint32_t crc32(std::span<const std::byte> bytes, std::uint32_t sum) {
    sum = ~sum;
    for (const std::byte byte : bytes) {
        sum = kCrcTable[(sum ^ static_cast<std::uint32_t>(byte)) & 0xFF] ^ (sum >> 8);
    }
    return ~sum;
}

void append_varint(std::uint64_t value, std::string& bytes) {
    while (value >= 0x80) {
        bytes.push_back(static_cast<char>((value & 0x7F) | 0x80));
        value >>= 7;
    }
    bytes.push_back(static_cast<char>(value));
}

}  // namespace oomb::profiler
