#include "tests/core/fuzz_entry.hpp"

#include <cmath>
#include <string>

#include "runtime/core/error.hpp"
#include "runtime/core/hardware_profile.hpp"
#include "runtime/core/model_shape.hpp"
#include "runtime/core/units.hpp"

namespace oomb::test {

namespace {

template <class Action>
bool accepts(Action&& action) {
    try {
        action();
        return true;
    } catch (const InternalError&) {
        throw;  // bytes must never break an invariant of ours
    } catch (const Error&) {
        return false;
    }
}

void read_model(const std::string& text) {
    const ModelShape shape = parse_model_shape(text, "config.json");
    const RopeFrequencies frequencies = rope_frequencies(shape);
    require(shape.parameters() > 0, "{} parameters", shape.parameters());
    require(std::isfinite(frequencies.attention_factor), "attention factor {}", frequencies.attention_factor);
    for (const float frequency : frequencies.inverse_frequency) {
        require(std::isfinite(frequency), "inverse frequency {}", frequency);
    }
}

}  // namespace

bool read_untrusted_bytes(const std::uint8_t* data, std::size_t size) {
    const std::string text(reinterpret_cast<const char*>(data), size);
    bool accepted = accepts([&] { read_model(text); });
    accepted |= accepts([&] { parse_hardware_profile(text, "machine.json"); });
    accepted |= accepts([&] { require(parse_bytes("--memory", text) > 0, "a size of {}", text); });
    accepted |= accepts([&] { require(parse_tokens("--context", text) > 0, "tokens of {}", text); });
    return accepted;
}

}  // namespace oomb::test
