#include "runtime/core/hardware_profile.hpp"
#include "tests/fuzz/target.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    return oomb::fuzz::refuses_or_accepts(
        [&] { oomb::parse_hardware_profile(oomb::fuzz::text_of(data, size), "profile.json"); });
}
