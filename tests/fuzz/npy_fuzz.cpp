#include <span>

#include "tests/fuzz/target.hpp"
#include "trainer/data/npy.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    return oomb::fuzz::refuses_or_accepts(
        [&] { oomb::trainer::parse_npy(std::as_bytes(std::span(data, size)), "tokens.npy"); });
}
