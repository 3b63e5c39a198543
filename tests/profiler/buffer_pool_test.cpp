#include "profiler/record/buffer_pool.hpp"

#include <doctest/doctest.h>

#include <set>

namespace oomb::profiler {

TEST_CASE("buffers are made before, more on demand, none past the limit, and come back") {
    BufferPool pool({.buffer_bytes = 4096, .buffers = 2, .most_buffers = 3});
    CHECK(pool.buffers() == 2);
    std::set<std::uint8_t*> taken{pool.take(), pool.take()};
    CHECK(pool.buffers() == 2);
    taken.insert(pool.take());
    CHECK(pool.buffers() == 3);
    CHECK(taken.size() == 3);
    CHECK_FALSE(taken.contains(nullptr));
    for (std::uint8_t* buffer : taken) {
        CHECK(reinterpret_cast<std::uintptr_t>(buffer) % 8 == 0);  // as CUPTI demands
        buffer[pool.buffer_bytes() - 1] = 1;
    }
    CHECK(pool.take() == nullptr);
    CHECK(pool.taken() == 3);
    pool.give(*taken.begin());
    CHECK(pool.taken() == 2);
    CHECK(pool.take() == *taken.begin());
    CHECK(pool.buffers() == 3);
}

}  // namespace oomb::profiler
