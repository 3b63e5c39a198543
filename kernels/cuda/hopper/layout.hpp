#pragma once
// Where elements lie: in shared memory under the 128-byte swizzle, and in the registers of a warpgroup. No CUDA in
// here: the host's tests hold these functions to an emulation of the hardware (tests/kernels/hopper_layout_test.cpp).
//
// A tile of `rows` x `columns` 16-bit elements lies in boxes of 64 columns: a box is [rows][128 bytes], one after
// another, and begins on 1,024 bytes. That is what the copy engine writes for a box of 128 bytes with
// CU_TENSOR_MAP_SWIZZLE_128B: within each 8 rows the 16-byte pieces of row r change places by exclusive or with r. An
// operand that the products sum along its columns is "K-major" in PTX's words, one that they sum along its rows
// "MN-major"; both are read from the same tile. Source: PTX ISA, "Asynchronous Warpgroup Level Matrix Instructions",
// shared memory layout and descriptor.

#include <cstdint>

namespace oomb::kernels::cuda::hopper {

constexpr int kWarpgroup = 128;  // threads
constexpr int kRowBytes = 128;   // of a row of a box
constexpr int kBoxColumns = 64;  // of 16 bits
constexpr int kAtomRows = 8;     // after which the swizzle repeats
constexpr int kAtomBytes = kAtomRows * kRowBytes;
constexpr int kDepth = 16;     // elements that one wgmma on 16-bit operands sums
constexpr int kTileRows = 64;  // of a wgmma: a warpgroup's

constexpr std::uint32_t swizzled(std::uint32_t byte) {
    return byte ^ ((byte / kRowBytes % kAtomRows) * 16);
}

// Byte of an element of a tile of `rows`, from the tile's start; Element is 2 or 4 bytes, a row of a box 128 bytes.
template <int kElementBytes = 2>
constexpr std::uint32_t tile_byte(int row, int column, int rows) {
    constexpr int kColumns = kRowBytes / kElementBytes;
    return column / kColumns * rows * kRowBytes + swizzled(row * kRowBytes + column % kColumns * kElementBytes);
}
constexpr std::uint32_t tile_bytes(int rows, int columns) {
    return static_cast<std::uint32_t>(rows * columns * 2);
}

// Whether the columns or the rows of a tile in shared memory are summed.
enum class Summed { kAlongColumns = 0, kAlongRows = 1 };

// The operand of a wgmma in shared memory, `offset` bytes after `address`: known when compiled, it is one addition.
// `leading` is the distance of boxes of an MN-major operand (of no meaning for a K-major one), `stride` that of 8 rows;
// all in bytes, multiples of 16.
constexpr std::uint64_t matrix_descriptor(std::uint32_t address, std::uint32_t offset, std::uint32_t leading,
                                          std::uint32_t stride) {
    constexpr std::uint32_t kSwizzle128 = 1;
    const std::uint32_t start = (address / 16 | leading / 16 << 16) + offset / 16;  // addresses have 18 bits
    return std::uint64_t{stride / 16 | kSwizzle128 << 30} << 32 | start;
}

// The operand whose columns are summed: rows are M or N. `address` is its first row in the first box; a step goes on by
// kDepth columns, four to a box.
constexpr std::uint64_t summed_along_columns(std::uint32_t address, int tile_rows, int step) {
    return matrix_descriptor(address, step / 4 * tile_rows * kRowBytes + step % 4 * kDepth * 2, 16, kAtomBytes);
}
// The operand whose rows are summed: columns are M or N. A step goes on by kDepth rows.
constexpr std::uint64_t summed_along_rows(std::uint32_t address, int tile_rows, int step) {
    return matrix_descriptor(address, step * kDepth * kRowBytes, tile_rows * kRowBytes, kAtomBytes);
}

// Row and column of register `i` of `thread` of the warpgroup in an accumulator of 64 x N.
constexpr int accumulator_row(int thread, int i) {
    return thread / 32 * 16 + thread % 32 / 4 + i / 2 % 2 * 8;
}
constexpr int accumulator_column(int thread, int i) {
    return i / 4 * 8 + thread % 4 * 2 + i % 2;
}
// The same of element `i` of 8 in the operand of 64 x 16 in registers, two to a register. It is that of accumulator
// registers 8 step + i: what one product sums up, rounded in pairs, is the next one's operand.
constexpr int operand_row(int thread, int i) {
    return thread / 32 * 16 + thread % 32 / 4 + i / 2 % 2 * 8;
}
constexpr int operand_column(int thread, int i) {
    return i / 4 * 8 + thread % 4 * 2 + i % 2;
}

}  // namespace oomb::kernels::cuda::hopper
