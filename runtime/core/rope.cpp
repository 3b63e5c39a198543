// Frequencies of rotary embeddings. The steps and their order are those of transformers' modeling_rope_utils.py in
// fp32: at a position of a million, one unit in the last place of a frequency near 1 is an angle of 0.06.
// Dividing a number by a tensor is, in PyTorch, multiplying it by the reciprocal; so it is here.

#include <algorithm>
#include <cmath>
#include <numbers>

#include "runtime/core/error.hpp"
#include "runtime/core/model_shape.hpp"

namespace oomb {

namespace {

constexpr double kTwoPi = 2 * std::numbers::pi;

// theta^(2i / head_dim), rounded once to fp32.
std::vector<float> position_powers(const ModelShape& shape) {
    std::vector<float> powers(static_cast<std::size_t>(shape.head_dim / 2));
    const auto theta = static_cast<double>(static_cast<float>(shape.rope.theta));
    for (std::size_t i = 0; i < powers.size(); ++i) {
        const float exponent = static_cast<float>(2 * i) / static_cast<float>(shape.head_dim);
        powers[i] = static_cast<float>(std::pow(theta, static_cast<double>(exponent)));
    }
    return powers;
}

std::vector<float> reciprocals(std::vector<float> values) {
    std::ranges::transform(values, values.begin(), [](float value) { return 1.0F / value; });
    return values;
}

// Long waves are stretched by the factor, short ones kept, those between blended.
float llama3_frequency(float frequency, const Rope& rope) {
    const auto original = static_cast<float>(rope.original_max_positions);
    const auto factor = static_cast<float>(rope.factor);
    const auto low_wave = static_cast<float>(static_cast<double>(rope.original_max_positions) / rope.low_freq_factor);
    const auto high_wave = static_cast<float>(static_cast<double>(rope.original_max_positions) / rope.high_freq_factor);
    const float wave = (1.0F / frequency) * static_cast<float>(kTwoPi);
    if (wave > low_wave) {
        return frequency / factor;
    }
    if (wave < high_wave) {
        return frequency;
    }
    const float smooth = ((1.0F / wave) * original - static_cast<float>(rope.low_freq_factor)) /
                         static_cast<float>(rope.high_freq_factor - rope.low_freq_factor);
    return (1.0F - smooth) * frequency / factor + smooth * frequency;
}

// The dimension that turns `rotations` times within the original context.
double yarn_dimension(double rotations, const ModelShape& shape) {
    const double waves = static_cast<double>(shape.rope.original_max_positions) / (rotations * 2 * std::numbers::pi);
    return static_cast<double>(shape.head_dim) * std::log(waves) / (2 * std::log(shape.rope.theta));
}

std::vector<float> yarn_frequencies(const std::vector<float>& powers, const ModelShape& shape) {
    const Rope& rope = shape.rope;
    double low = yarn_dimension(rope.beta_fast, shape);
    double high = yarn_dimension(rope.beta_slow, shape);
    if (rope.truncate) {
        low = std::floor(low);
        high = std::ceil(high);
    }
    low = std::max(low, 0.0);
    high = std::min(high, static_cast<double>(shape.head_dim - 1));
    if (low == high) {
        high += 0.001;  // as transformers does, against division by zero
    }
    std::vector<float> frequencies(powers.size());
    for (std::size_t i = 0; i < powers.size(); ++i) {
        const float ramp = (static_cast<float>(i) - static_cast<float>(low)) / static_cast<float>(high - low);
        const float kept = 1.0F - std::clamp(ramp, 0.0F, 1.0F);
        const float interpolated = 1.0F / (static_cast<float>(rope.factor) * powers[i]);
        frequencies[i] = interpolated * (1.0F - kept) + (1.0F / powers[i]) * kept;
    }
    return frequencies;
}

double yarn_mscale(double factor, double mscale) {
    return factor <= 1 ? 1.0 : 0.1 * mscale * std::log(factor) + 1.0;
}

double yarn_attention_factor(const Rope& rope) {
    if (rope.attention_factor > 0) {
        return rope.attention_factor;
    }
    if (rope.mscale > 0 && rope.mscale_all_dim > 0) {
        return yarn_mscale(rope.factor, rope.mscale) / yarn_mscale(rope.factor, rope.mscale_all_dim);
    }
    return yarn_mscale(rope.factor, 1);
}

}  // namespace

RopeFrequencies rope_frequencies(const ModelShape& shape) {
    require(shape.head_dim > 0 && shape.head_dim % 2 == 0, "RoPE over head_dim {}", shape.head_dim);
    const std::vector<float> powers = position_powers(shape);
    RopeFrequencies result{reciprocals(powers), 1.0};
    const auto factor = static_cast<float>(shape.rope.factor);
    switch (shape.rope.scaling) {
        case RopeScaling::kNone:
            break;
        case RopeScaling::kLinear:
            std::ranges::transform(result.inverse_frequency, result.inverse_frequency.begin(),
                                   [factor](float frequency) { return frequency / factor; });
            break;
        case RopeScaling::kLlama3:
            std::ranges::transform(result.inverse_frequency, result.inverse_frequency.begin(),
                                   [&shape](float frequency) { return llama3_frequency(frequency, shape.rope); });
            break;
        case RopeScaling::kYarn:
            result.inverse_frequency = yarn_frequencies(powers, shape);
            result.attention_factor = yarn_attention_factor(shape.rope);
            break;
    }
    return result;
}

}  // namespace oomb
