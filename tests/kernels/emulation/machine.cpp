#include "tests/kernels/emulation/machine.hpp"

#include <ucontext.h>

#include <algorithm>
#include <array>
#include <exception>
#include <map>
#include <memory>
#include <random>
#include <utility>

#include "runtime/core/error.hpp"
#include "tests/kernels/emulation/multiprocessor.hpp"

oomb::emulation::Place threadIdx, blockIdx, gridDim;

namespace oomb::emulation {
namespace {

constexpr std::size_t kStackBytes = 256 << 10;
constexpr std::uint32_t kFirstAddress = 1024 + 16;  // as the system's own bytes leave it, and on no atom
constexpr int kWarp = 32;

struct Fiber {
    ucontext_t context{};
    std::unique_ptr<std::uint8_t[]> stack{new std::uint8_t[kStackBytes]};
    std::function<bool()> condition;  // it waits for; none: it can go on
    bool done = false;
};

struct NamedBarrier {
    int arrived = 0;
    std::uint64_t generation = 0;
};
struct Meeting {
    std::array<std::uint64_t, kWarp> values{};
    int arrived = 0;
    std::uint64_t generation = 0;
    std::vector<std::uint64_t> result;
};

struct Machine {
    std::mt19937 random{1};
    ucontext_t scheduler{};
    std::vector<Fiber> fibers;
    std::vector<std::uint8_t> memory;
    std::map<int, NamedBarrier> barriers;
    std::map<unsigned, Meeting> warps;
    const std::function<void()>* kernel = nullptr;
    std::exception_ptr failure;
};
Machine machine;

void fiber_main() {
    try {
        (*machine.kernel)();
    } catch (...) {
        machine.failure = std::current_exception();
    }
    machine.fibers[threadIdx.x].done = true;
    swapcontext(&machine.fibers[threadIdx.x].context, &machine.scheduler);
}

void start_fibers() {
    for (Fiber& fiber : machine.fibers) {
        fiber.done = false;
        fiber.condition = nullptr;
        getcontext(&fiber.context);
        fiber.context.uc_stack.ss_sp = fiber.stack.get();
        fiber.context.uc_stack.ss_size = kStackBytes;
        fiber.context.uc_link = nullptr;
        makecontext(&fiber.context, fiber_main, 0);
    }
}

// Lets a fiber run until it waits; false if it is done or what it waits for has not come.
bool resume(unsigned thread) {
    Fiber& fiber = machine.fibers[thread];
    if (fiber.done || (fiber.condition && !fiber.condition())) {
        return false;
    }
    fiber.condition = nullptr;
    threadIdx.x = thread;
    swapcontext(&machine.scheduler, &fiber.context);
    if (machine.failure) {
        std::rethrow_exception(std::exchange(machine.failure, nullptr));
    }
    return true;
}

void run_block(unsigned threads) {
    std::fill(machine.memory.begin(), machine.memory.end(), std::uint8_t{0xff});
    machine.barriers.clear();
    machine.warps.clear();
    begin_block(threads, machine.random);
    start_fibers();
    std::vector<unsigned> order(threads);
    for (unsigned i = 0; i < threads; ++i) {
        order[i] = i;
    }
    const auto running = [&] {
        return std::count_if(machine.fibers.begin(), machine.fibers.end(), [](const Fiber& f) { return !f.done; });
    };
    while (running() > 0) {
        std::shuffle(order.begin(), order.end(), machine.random);
        bool progress = false;
        for (const unsigned thread : order) {
            const bool worked = machine.random() % 256 == 0 && do_some_work(machine.random);
            progress = resume(thread) || worked || progress;
        }
        if (!progress && !do_some_work(machine.random)) {
            fail<Error>("deadlock: {} threads of block {} wait for what nobody will do", running(), blockIdx.x);
        }
    }
    end_block();
}

}  // namespace

void run_grid(unsigned blocks, unsigned threads, std::size_t shared_bytes, const std::function<void()>& kernel) {
    constexpr std::size_t kAtom = 1024;
    machine.kernel = &kernel;
    machine.fibers = std::vector<Fiber>(threads);
    machine.memory.resize(shared_bytes + 3 * kAtom);
    gridDim.x = blocks;
    for (blockIdx.x = 0; blockIdx.x < blocks; ++blockIdx.x) {
        run_block(threads);
    }
}

void set_seed(unsigned seed) {
    machine.random.seed(seed);
}

// On the host, too, the first byte lies 16 beyond an atom.
std::uint8_t* shared_bytes() {
    constexpr std::uintptr_t kAtom = 1024;
    const auto first = reinterpret_cast<std::uintptr_t>(machine.memory.data());
    return machine.memory.data() + ((kAtom - first % kAtom) % kAtom + kFirstAddress % kAtom);
}
std::uint32_t shared_address(const void* pointer) {
    return static_cast<std::uint32_t>(static_cast<const std::uint8_t*>(pointer) - shared_bytes()) + kFirstAddress;
}
std::uint8_t* at_shared_address(std::uint32_t address) {
    require(address >= kFirstAddress && address - kFirstAddress < machine.memory.size(), "shared address {}", address);
    return shared_bytes() + (address - kFirstAddress);
}

void wait_until(const std::function<bool()>& condition) {
    Fiber& fiber = machine.fibers[threadIdx.x];
    fiber.condition = condition;
    swapcontext(&fiber.context, &machine.scheduler);
}

void Barrier::init(int arrivals) {
    *this = {};
    expected = missing = arrivals;
}
void Barrier::arrive(int more_bytes) {
    require(missing > 0, "more arrivals at an mbarrier than the {} of its phase", expected);
    bytes += more_bytes;
    --missing;
    end_phase_if_complete();
}
void Barrier::come(int copied_bytes) {
    bytes -= copied_bytes;
    end_phase_if_complete();
}
void Barrier::wait(std::uint32_t parity) {
    wait_until([this, parity] { return phase != parity; });
}
void Barrier::end_phase_if_complete() {
    if (missing == 0 && bytes == 0) {
        missing = expected;
        phase ^= 1;
    }
}

void named_barrier(int barrier, int threads, bool waits) {
    NamedBarrier& here = machine.barriers[barrier];
    const std::uint64_t generation = here.generation;
    if (++here.arrived == threads) {
        here.arrived = 0;
        ++here.generation;
    }
    if (waits) {
        wait_until([&here, generation] { return here.generation != generation; });
    }
}

std::vector<std::uint64_t> meet_in_warp(std::uint64_t value) {
    Meeting& here = machine.warps[threadIdx.x / kWarp];
    const std::uint64_t generation = here.generation;
    here.values[threadIdx.x % kWarp] = value;
    if (++here.arrived == kWarp) {
        here.arrived = 0;
        here.result.assign(here.values.begin(), here.values.end());
        ++here.generation;
    } else {
        wait_until([&here, generation] { return here.generation != generation; });
    }
    return here.result;
}

}  // namespace oomb::emulation

void __syncthreads() {
    oomb::emulation::named_barrier(0, static_cast<int>(oomb::emulation::threads_of_block()), true);
}
