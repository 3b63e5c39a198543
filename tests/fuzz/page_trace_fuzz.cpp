#include "simulator/lists/page_trace.hpp"
#include "tests/fuzz/target.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    return oomb::fuzz::refuses_or_accepts(
        [&] { oomb::simulator::read_page_trace(oomb::fuzz::as_file(data, size, ".jsonl")); });
}
