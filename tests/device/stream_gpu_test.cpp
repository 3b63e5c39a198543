#include "runtime/device/stream.hpp"

#include <doctest/doctest.h>

#include <chrono>
#include <thread>
#include <vector>

#include "runtime/device/check.hpp"
#include "runtime/device/device_info.hpp"
#include "runtime/device/event_pool.hpp"

namespace oomb::device {

namespace {

void sleep_milliseconds(void* milliseconds) {
    std::this_thread::sleep_for(std::chrono::milliseconds(*static_cast<int*>(milliseconds)));
}

}  // namespace

TEST_CASE("an event is done when the work before it is") {
    open_device();
    const Stream stream;
    Event event(Timing::kOn), end(Timing::kOn);
    CHECK(event.done());
    int delay = 50;
    stream.enqueue_record(event.get());
    OOMB_CUDA(cudaLaunchHostFunc(stream.get(), sleep_milliseconds, &delay));
    stream.enqueue_record(end.get());
    CHECK_FALSE(end.done());
    end.wait_done();
    CHECK(end.done());
    CHECK(milliseconds_between(event, end) > 49.0);  // less 1 ms: two clocks
}

TEST_CASE("handles are moved, not copied") {
    open_device();
    Stream first(Priority::kHigh);
    const cudaStream_t handle = first.get();
    const Stream second(std::move(first));
    CHECK(second.get() == handle);
    second.wait_idle();
}

TEST_CASE("a pool lends each event once and takes it back") {
    open_device();
    EventPool pool(3);
    std::vector<EventLease> leases;
    for (int i = 0; i < 3; ++i) {
        leases.push_back(pool.lease());
    }
    CHECK(leases[0].get() != leases[1].get());
    CHECK(pool.free() == 0);
    CHECK_THROWS_AS(pool.lease(), InternalError);
    const cudaEvent_t last = leases[1].get();
    leases[1].give_back();
    CHECK_FALSE(leases[1]);
    CHECK_THROWS_AS(leases[1].get(), InternalError);
    leases[0] = pool.lease();  // the lease that was there goes back
    CHECK(leases[0].get() == last);
    leases.clear();
    CHECK(pool.free() == 3);
}

}  // namespace oomb::device
