#include "trainer/weights/random_weights.hpp"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <string_view>

namespace oomb::trainer {
namespace {

constexpr std::uint64_t kGamma = 0x9e3779b97f4a7c15U;

std::uint64_t mixed(std::uint64_t value) {
    value = (value ^ (value >> 30)) * 0xbf58476d1ce4e5b9U;
    value = (value ^ (value >> 27)) * 0x94d049bb133111ebU;
    return value ^ (value >> 31);
}

// FNV-1a, so that every parameter has a stream of its own.
std::uint64_t hash_of(std::string_view name) {
    std::uint64_t hash = 0xcbf29ce484222325U;
    for (const char letter : name) {
        hash = (hash ^ static_cast<unsigned char>(letter)) * 0x100000001b3U;
    }
    return hash;
}

// Uniform in (0, 1]: the logarithm below needs more than zero.
double uniform(std::uint64_t key, std::uint64_t counter) {
    const std::uint64_t bits = mixed(key + (counter + 1) * kGamma) >> 11;
    return (static_cast<double>(bits) + 1.0) * 0x1p-53;
}

// Elements 2i and 2i + 1 are the cosine and the sine of pair i.
double normal(std::uint64_t key, std::uint64_t element) {
    const std::uint64_t pair = element / 2;
    const double radius = std::sqrt(-2.0 * std::log(uniform(key, 2 * pair)));
    const double angle = 2.0 * std::numbers::pi * uniform(key, 2 * pair + 1);
    return radius * (element % 2 == 0 ? std::cos(angle) : std::sin(angle));
}

}  // namespace

template <class T>
void random_values(const ParameterInfo& parameter, std::uint64_t seed, std::span<T> values,
                   std::int64_t first_element) {
    if (is_norm(parameter.kind) || is_bias(parameter.kind)) {
        std::fill(values.begin(), values.end(), static_cast<T>(is_norm(parameter.kind) ? 1 : 0));
        return;
    }
    const std::uint64_t key = mixed(mixed(seed + kGamma) ^ hash_of(parameter.name));
    auto element = static_cast<std::uint64_t>(first_element);
    for (T& value : values) {
        value = static_cast<T>(kInitialStd * normal(key, element));
        ++element;
    }
}

template void random_values(const ParameterInfo&, std::uint64_t, std::span<float>, std::int64_t);
template void random_values(const ParameterInfo&, std::uint64_t, std::span<double>, std::int64_t);

}  // namespace oomb::trainer
