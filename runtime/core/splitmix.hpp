#pragma once
// Random bits as a function of a key and a counter: SplitMix64 (Steele, Lea, Flood 2014). The same place in a stream
// has the same bits in any order and on any device.

#include <cstdint>
#include <string_view>

namespace oomb {

inline constexpr std::uint64_t kSplitMixGamma = 0x9e3779b97f4a7c15U;

// Mixes 64 bits; every bit of the result depends on every bit of the value.
constexpr std::uint64_t splitmix(std::uint64_t value) {
    value = (value ^ (value >> 30)) * 0xbf58476d1ce4e5b9U;
    value = (value ^ (value >> 27)) * 0x94d049bb133111ebU;
    return value ^ (value >> 31);
}

// Bits number `counter` of the stream `key`.
constexpr std::uint64_t random_bits(std::uint64_t key, std::uint64_t counter) {
    return splitmix(key + (counter + 1) * kSplitMixGamma);
}

// Key of the stream that a seed has under a name (FNV-1a), so that every name has a stream of its own.
constexpr std::uint64_t stream_key(std::uint64_t seed, std::string_view name) {
    std::uint64_t hash = 0xcbf29ce484222325U;
    for (const char letter : name) {
        hash = (hash ^ static_cast<unsigned char>(letter)) * 0x100000001b3U;
    }
    return splitmix(splitmix(seed + kSplitMixGamma) ^ hash);
}

}  // namespace oomb
