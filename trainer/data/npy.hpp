#pragma once
// NumPy's .npy files: the header of one that holds tokens, and a whole one of losses.

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

namespace oomb::trainer {

// A one-dimensional array of little-endian uint16 or uint32 whose bytes have been found in the file.
struct NpyTokens {
    std::int64_t data_begin_bytes = 0;  // from the begin of the file
    std::int64_t element_bytes = 0;     // 2 or 4
    std::int64_t tokens = 0;            // may be 0
};

// Format versions 1, 2 and 3. Throws FileError, beginning with `name_in_messages`, for anything else: other types,
// big-endian or Fortran order, more than one dimension, a damaged header, a file shorter or longer than it says.
NpyTokens parse_npy(std::span<const std::byte> file, const std::string& name_in_messages);

// The bytes of a file, of format version 1.0, that holds a one-dimensional array of little-endian float32.
std::string npy_of_losses(std::span<const float> losses);

}  // namespace oomb::trainer
