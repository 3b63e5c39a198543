#include "simulator/lists/locality.hpp"
#include "tests/fuzz/target.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    return oomb::fuzz::refuses_or_accepts(
        [&] { oomb::simulator::read_locality(oomb::fuzz::as_file(data, size, ".json").string()); });
}
