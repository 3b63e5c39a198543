// Lists that travel as kernel parameters.
#include <doctest/doctest.h>

#include <numeric>

#include "kernels/cuda/page_list.hpp"
#include "tests/kernels/cuda/kernel_sets.hpp"

namespace oomb::kernels::test {
namespace {

struct PageList {
    explicit PageList(std::size_t pages) : frames(pages), first_touch(pages) {
        for (std::size_t i = 0; i < pages; ++i) {
            frames[i] = static_cast<std::int32_t>(pages - i) * 3;
            first_touch[i] = i % 3 == 0 ? 1 : 0;
        }
    }
    std::vector<std::int32_t> frames;
    std::vector<std::uint8_t> first_touch;
};

// 704 pages fill one launch.
TEST_CASE("page lists of any length arrive whole, and nothing behind them is touched") {
    for (const std::size_t pages : {0, 1, 703, 704, 705, 2'817}) {
        CAPTURE(pages);
        const PageList list(pages);
        DeviceBuffer<std::int32_t> frames(std::vector<std::int32_t>(pages + 1, -7));
        DeviceBuffer<std::uint8_t> first_touch(std::vector<std::uint8_t>(pages + 1, 9));
        cuda::write_page_list(list.frames, list.first_touch, frames.data(), first_touch.data(), nullptr);
        wait();
        auto expected = list.frames;
        expected.push_back(-7);
        auto expected_touch = list.first_touch;
        expected_touch.push_back(9);
        CHECK(frames.values() == expected);
        CHECK(first_touch.values() == expected_touch);
    }
}

TEST_CASE("a page list without first touches") {
    const PageList list(1'000);
    DeviceBuffer<std::int32_t> frames(std::size_t{1'000});
    cuda::write_page_list(list.frames, {}, frames.data(), nullptr, nullptr);
    wait();
    CHECK(frames.values() == list.frames);
    const std::vector<std::uint8_t> short_list(999);
    CHECK_THROWS_AS(cuda::write_page_list(list.frames, short_list, frames.data(), nullptr, nullptr), InternalError);
}

// The list is read before the call returns: overwriting it at once, while the stream has work before it, changes
// nothing.
TEST_CASE("a page list need not outlive the call") {
    DeviceBuffer<std::byte> busy(std::size_t{1} << 30);
    DeviceBuffer<std::int32_t> frames(std::size_t{2'000});
    PageList list(2'000);
    const auto expected = list.frames;
    require_cuda(cudaMemsetAsync(busy.data(), 0, busy.bytes(), nullptr), "cudaMemsetAsync");
    cuda::write_page_list(list.frames, {}, frames.data(), nullptr, nullptr);
    std::fill(list.frames.begin(), list.frames.end(), -1);
    wait();
    CHECK(frames.values() == expected);
}

}  // namespace
}  // namespace oomb::kernels::test
