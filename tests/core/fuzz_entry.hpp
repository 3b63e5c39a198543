#pragma once
// One entry for bytes from anywhere: a fuzzer's, or the mutations in fuzz_test.cpp.

#include <cstddef>
#include <cstdint>

namespace oomb::test {

// Gives the bytes to every reader of the core that takes text. Returns for any bytes: the readers may throw
// oomb::Error, which is caught here, and nothing else. Whether one of them accepted the bytes is the result.
bool read_untrusted_bytes(const std::uint8_t* data, std::size_t size);

}  // namespace oomb::test
