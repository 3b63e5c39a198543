// Where the Hopper kernels put elements, held to an emulation of what PTX says the hardware does: the copy engine's
// swizzle, operands found by their descriptors, fragments in registers. No GPU is needed.
#include <doctest/doctest.h>

#include <cstring>
#include <set>
#include <vector>

#include "kernels/cuda/hopper/layout.hpp"

namespace oomb::kernels::test {
namespace {

namespace hopper = cuda::hopper;

constexpr std::uint32_t kBase = 3 * 1024;  // a tile's address: any multiple of 1,024

// 16-bit integers stand for elements.
struct SharedMemory {
    std::vector<std::uint8_t> bytes = std::vector<std::uint8_t>(std::size_t{1} << 18);

    std::int16_t read(std::uint32_t at) const {
        std::int16_t value = 0;
        std::memcpy(&value, &bytes[at], 2);
        return value;
    }
    // The copy engine, box by box: 16-byte piece c of row r goes to place c xor r mod 8 of that row (PTX ISA,
    // "Swizzling modes"), which holds for addresses on 1,024 bytes.
    void copy_tile(std::uint32_t to, const std::vector<std::int16_t>& matrix, int rows, int columns) {
        for (int row = 0; row < rows; ++row) {
            for (int column = 0; column < columns; ++column) {
                const int box = column / 64, piece = column % 64 / 8;
                const auto at = to + box * rows * 128 + row * 128 + (piece ^ row % 8) * 16 + column % 8 * 2;
                std::memcpy(&bytes[at], &matrix[row * columns + column], 2);
            }
        }
    }
};

// PTX ISA, matrix descriptor: start address, leading and stride offset in units of 16 bytes, swizzle in the top bits.
struct Descriptor {
    std::uint32_t start, leading, stride, swizzle;
    explicit Descriptor(std::uint64_t bits)
        : start((bits & 0x3FFF) * 16),
          leading((bits >> 16 & 0x3FFF) * 16),
          stride((bits >> 32 & 0x3FFF) * 16),
          swizzle(static_cast<std::uint32_t>(bits >> 62)) {}
};

// Address of element (i, depth) of an operand, i along M or N, depth along the sum, below 16. Canonical layouts under
// the 128-byte swizzle, in elements of 16 bits: K-major ((8, m), 16) : ((64, stride), 1); MN-major ((64, m), (8, 2)) :
// ((1, leading), (64, stride)). The swizzle is of the address: bits 4 to 6 by exclusive or with bits 7 to 9.
std::uint32_t operand_address(std::uint64_t bits, bool along_rows, int i, int depth) {
    const Descriptor d(bits);
    REQUIRE(d.swizzle == 1);
    const std::uint32_t at = along_rows
                                 ? d.start + i / 64 * d.leading + i % 64 * 2 + depth / 8 * d.stride + depth % 8 * 128
                                 : d.start + i / 8 * d.stride + i % 8 * 128 + depth * 2;
    return at ^ ((at >> 7 & 7) << 4);
}

std::vector<std::int16_t> numbered(int rows, int columns, int seed) {
    std::vector<std::int16_t> matrix(rows * columns);
    for (std::size_t i = 0; i < matrix.size(); ++i) {
        matrix[i] = static_cast<std::int16_t>((i * 7919 + seed) % 199 - 99);
    }
    return matrix;
}

TEST_CASE("a tile's elements are where the copy engine puts them") {
    for (const int rows : {64, 128, 192}) {
        SharedMemory memory;
        const auto matrix = numbered(rows, 128, 1);
        memory.copy_tile(kBase, matrix, rows, 128);
        int wrong = 0;
        for (int i = 0; i < rows * 128; ++i) {
            wrong += memory.read(kBase + hopper::tile_byte(i / 128, i % 128, rows)) != matrix[i];
        }
        CHECK(wrong == 0);
    }
    CHECK(hopper::tile_byte<2>(9, 8, 64) == 9 * 128 + (1 ^ 1) * 16);
    CHECK(hopper::tile_byte<4>(10, 36, 64) == 64 * 128 + 10 * 128 + (1 ^ 2) * 16);
}

TEST_CASE("fields of a descriptor") {
    const Descriptor d(hopper::matrix_descriptor(0x2E000, 0x1000, 16384, 1024));
    CHECK(d.start == 0x2F000);
    CHECK(d.leading == 16384);
    CHECK(d.stride == 1024);
    CHECK(d.swizzle == 1);
}

// Either operand of either kind, by rows from `first_row` on or by columns: what the descriptor finds is the element.
TEST_CASE("descriptors find the elements of every step") {
    for (const int tile_rows : {64, 128, 192}) {
        SharedMemory memory;
        const auto matrix = numbered(tile_rows, 128, 5);
        memory.copy_tile(kBase, matrix, tile_rows, 128);
        int wrong = 0;
        for (int first_row = 0; first_row < tile_rows; first_row += 64) {
            for (int step = 0; step < 128 / hopper::kDepth; ++step) {
                for (int i = 0; i < 64 * hopper::kDepth; ++i) {
                    const auto bits = hopper::summed_along_columns(kBase + first_row * 128, tile_rows, step);
                    const int row = i / 16, column = step * 16 + i % 16;
                    wrong += memory.read(operand_address(bits, false, row, i % 16)) !=
                             matrix[(first_row + row) * 128 + column];
                }
            }
        }
        CHECK(wrong == 0);
        for (int step = 0; step < tile_rows / hopper::kDepth; ++step) {
            for (int i = 0; i < 128 * hopper::kDepth; ++i) {
                const auto bits = hopper::summed_along_rows(kBase, tile_rows, step);
                const int row = step * 16 + i / 128;
                wrong += memory.read(operand_address(bits, true, i % 128, i / 128)) != matrix[row * 128 + i % 128];
            }
        }
        CHECK(wrong == 0);
    }
}

// PTX ISA, fragments of wgmma .m64nNk16: register pairs of lane l are at row l / 4 of the warp's 16 (the second pair of
// four 8 below), columns 2 (l mod 4) and the next.
TEST_CASE("registers of a warpgroup hold each element once") {
    std::set<std::pair<int, int>> accumulator, operand;
    for (int thread = 0; thread < hopper::kWarpgroup; ++thread) {
        for (int i = 0; i < 64; ++i) {
            accumulator.emplace(hopper::accumulator_row(thread, i), hopper::accumulator_column(thread, i));
        }
        for (int i = 0; i < 8; ++i) {
            operand.emplace(hopper::operand_row(thread, i), hopper::operand_column(thread, i));
        }
    }
    CHECK(accumulator.size() == 64 * 128);
    CHECK(*accumulator.rbegin() == std::pair(63, 127));
    CHECK(operand.size() == 64 * 16);
    CHECK(*operand.rbegin() == std::pair(63, 15));
    CHECK(hopper::accumulator_row(37, 2) == 16 + 1 + 8);  // warp 1, lane 5
    CHECK(hopper::accumulator_column(37, 7) == 8 + 2 + 1);
}

TEST_CASE("what a product sums up is the next one's operand") {
    for (int thread = 0; thread < hopper::kWarpgroup; ++thread) {
        for (int i = 0; i < 64; ++i) {
            CHECK(hopper::accumulator_row(thread, i) == hopper::operand_row(thread, i % 8));
            CHECK(hopper::accumulator_column(thread, i) == i / 8 * 16 + hopper::operand_column(thread, i % 8));
        }
    }
}

// 16 bytes apart in one phase of 8 lanes, or the stores of a warp would queue: the pairs that a warp stores at a time.
TEST_CASE("pairs of 16 bits of an accumulator reach all banks") {
    for (int i = 0; i < 32; i += 2) {
        std::set<std::uint32_t> banks;
        for (int lane = 0; lane < 32; ++lane) {
            const int row = hopper::accumulator_row(lane, i), column = hopper::accumulator_column(lane, i);
            banks.insert(hopper::tile_byte(row, column, 128) / 4 % 32);
        }
        CHECK(banks.size() == 32);
    }
}

}  // namespace
}  // namespace oomb::kernels::test
