#pragma once
// SHA-256 as published in FIPS 180-4.

#include <array>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>

namespace oomb::trainer {

// Takes bytes in pieces of any size; `hex_digest` ends the message.
class Sha256 {
  public:
    void update(std::span<const std::byte> bytes);
    std::string hex_digest();  // 64 lower-case digits; call once

  private:
    void compress(const std::byte* block);  // 64 bytes

    std::array<std::uint32_t, 8> state_{0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a,
                                        0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19};
    std::array<std::byte, 64> pending_{};
    std::size_t pending_bytes_ = 0;
    std::uint64_t total_bytes_ = 0;
};

// Digest of a whole file. Throws FileError when it cannot be read.
std::string sha256_of_file(const std::filesystem::path& path);

}  // namespace oomb::trainer
