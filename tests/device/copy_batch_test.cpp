#include "runtime/device/copy_batch.hpp"

#include <doctest/doctest.h>

#include <array>
#include <limits>

#include "runtime/device/arena_view.hpp"
#include "tests/core/messages.hpp"

namespace oomb::device {

namespace {

constexpr std::int64_t kLargest = std::numeric_limits<std::int64_t>::max();

struct Memory {
    alignas(256) std::array<std::byte, 4096> bytes{};
    ArenaView view{"HBM arena", bytes.data(), 4096, 0};
};

}  // namespace

TEST_CASE("an arena gives out what lies inside it") {
    Memory memory;
    CHECK(memory.view.at(0, 4096) == memory.bytes.data());
    CHECK(memory.view.at(4096, 0) == memory.bytes.data() + 4096);
    CHECK(memory.view.elements<double>(16, 3) == reinterpret_cast<double*>(memory.bytes.data() + 16));
    test::check_contains(memory.view.describe(), {"HBM arena: 4.0 KiB (4,096 bytes) at 0x"});
}

TEST_CASE("an arena refuses what does not, sums past 2^63 included") {
    Memory memory;
    const ArenaView& view = memory.view;
    CHECK_THROWS_AS(view.at(1, 4096), InternalError);
    CHECK_THROWS_AS(view.at(-1, 1), InternalError);
    CHECK_THROWS_AS(view.at(0, -1), InternalError);
    CHECK_THROWS_AS(view.at(kLargest, kLargest), InternalError);
    CHECK_THROWS_AS(view.elements<float>(2, 1), InternalError);
    CHECK_THROWS_AS(view.elements<double>(0, kLargest / 4), InternalError);
    test::check_contains(test::message_of<InternalError>([&] { view.at(4000, 97); }), {"HBM arena", "4000", "4096"});
}

TEST_CASE("a copy is cut where a registered piece ends") {
    Memory memory;
    CHECK(bytes_in_piece(memory.view, 1000, 3000) == 3000);
    memory.view.piece_bytes = 1024;
    CHECK(bytes_in_piece(memory.view, 0, 1024) == 1024);
    CHECK(bytes_in_piece(memory.view, 0, 1025) == 1024);
    CHECK(bytes_in_piece(memory.view, 1000, 3000) == 24);
    CHECK(bytes_in_piece(memory.view, 1024, 10) == 10);
}

TEST_CASE("a batch takes its number of copies and no empty one") {
    Memory memory;
    CopyBatch batch;
    CHECK_THROWS_AS(batch.add(memory.bytes.data(), memory.bytes.data() + 1, 0), InternalError);
    for (std::size_t i = 0; i < CopyBatch::kMaxCopies; ++i) {
        CHECK_FALSE(batch.full());
        batch.add(memory.bytes.data() + i, memory.bytes.data() + 2 * i, static_cast<std::int64_t>(i) + 1);
    }
    CHECK(batch.full());
    CHECK(batch.destinations()[255] == memory.bytes.data() + 255);
    CHECK(batch.sources()[255] == memory.bytes.data() + 510);
    CHECK(batch.bytes()[255] == 256);
    CHECK_THROWS_AS(batch.add(memory.bytes.data(), memory.bytes.data(), 1), InternalError);
    batch.clear();
    CHECK(batch.size() == 0);
}

TEST_CASE("sorting by destination moves whole copies") {
    Memory memory;
    CopyBatch batch;
    std::byte* const base = memory.bytes.data();
    const std::size_t offsets[] = {300, 100, 0, 200};
    for (const std::size_t offset : offsets) {
        batch.add(base + offset, base + 1000 + offset, static_cast<std::int64_t>(offset) / 10 + 1);
    }
    for (int pass = 0; pass < 2; ++pass) {  // the second finds nothing to do
        batch.sort_by_destination();
        REQUIRE(batch.size() == 4);
        for (std::size_t i = 0; i < 4; ++i) {
            CHECK(batch.destinations()[i] == base + 100 * i);
            CHECK(batch.sources()[i] == base + 1000 + 100 * i);
            CHECK(batch.bytes()[i] == 10 * i + 1);
        }
    }
}

}  // namespace oomb::device
