#include "trainer/weights/random_weights.hpp"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "kernels/cpu/parallel.hpp"
#include "runtime/core/splitmix.hpp"

namespace oomb::trainer {
namespace {

// Uniform in (0, 1]: the logarithm below needs more than zero.
double uniform(std::uint64_t key, std::uint64_t counter) {
    const std::uint64_t bits = random_bits(key, counter) >> 11;
    return (static_cast<double>(bits) + 1.0) * 0x1p-53;
}

struct Pair {
    double cosine, sine;
};

// Box and Muller: elements 2i and 2i + 1 are the cosine and the sine of pair i.
Pair normal_pair(std::uint64_t key, std::uint64_t pair) {
    const double radius = std::sqrt(-2.0 * std::log(uniform(key, 2 * pair)));
    const double angle = 2.0 * std::numbers::pi * uniform(key, 2 * pair + 1);
    return {radius * std::cos(angle), radius * std::sin(angle)};
}

// Elements [begin, end) of the stream, to out[0 ..].
template <class T>
void fill_normal(std::uint64_t key, std::int64_t begin, std::int64_t end, T* out) {
    const auto value = [](double normal) { return static_cast<T>(kInitialStd * normal); };
    for (std::int64_t element = begin; element < end;) {
        const Pair pair = normal_pair(key, static_cast<std::uint64_t>(element) / 2);
        if (element % 2 == 0) {
            *out++ = value(pair.cosine);
            ++element;
        }
        if (element < end) {
            *out++ = value(pair.sine);
            ++element;
        }
    }
}

}  // namespace

template <class T>
void random_values(const ParameterInfo& parameter, std::uint64_t seed, std::span<T> values,
                   std::int64_t first_element) {
    if (is_norm(parameter.kind) || is_bias(parameter.kind)) {
        std::fill(values.begin(), values.end(), static_cast<T>(is_norm(parameter.kind) ? 1 : 0));
        return;
    }
    const std::uint64_t key = stream_key(seed, parameter.name);
    constexpr std::int64_t kBlockElements = 1 << 15;
    kernels::cpu::parallel_blocks(static_cast<std::int64_t>(values.size()), kBlockElements,
                                  [&](std::int64_t, std::int64_t begin, std::int64_t end) {
                                      fill_normal(key, first_element + begin, first_element + end,
                                                  values.data() + begin);
                                  });
}

template void random_values(const ParameterInfo&, std::uint64_t, std::span<float>, std::int64_t);
template void random_values(const ParameterInfo&, std::uint64_t, std::span<double>, std::int64_t);

}  // namespace oomb::trainer
