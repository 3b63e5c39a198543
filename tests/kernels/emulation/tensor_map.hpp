#pragma once
// What the model keeps in a CUtensorMap's 128 bytes.

#include <cuda.h>

#include <cstdint>

namespace oomb::emulation {

struct TensorMap {
    std::uint8_t* base;
    std::int64_t sizes[4];    // in elements, innermost first; 1 beyond the rank
    std::int64_t strides[4];  // in bytes
    std::int32_t box[4];      // in elements
    std::int32_t element_bytes;
};
static_assert(sizeof(TensorMap) <= sizeof(CUtensorMap));

}  // namespace oomb::emulation
