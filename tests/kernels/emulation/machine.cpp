#include "tests/kernels/emulation/machine.hpp"

#include <ucontext.h>

#include <algorithm>
#include <array>
#include <exception>
#include <map>
#include <memory>
#include <numeric>
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

struct Block {
    Place place;
    std::vector<Fiber> fibers;
    std::vector<std::uint8_t> memory;
    std::map<int, NamedBarrier> barriers;
    std::map<unsigned, Meeting> warps;
    std::shared_ptr<Multiprocessor> beside = make_multiprocessor();
};

struct Machine {
    std::mt19937 random{1};
    unsigned most_resident = 1;
    ucontext_t scheduler{};
    std::vector<std::unique_ptr<Block>> resident;
    Block* current = nullptr;
    const std::function<void()>* kernel = nullptr;
    std::exception_ptr failure;
};
Machine machine;

void make_current(Block& block) {
    machine.current = &block;
    blockIdx = block.place;
    use(*block.beside);
}

void fiber_main() {
    try {
        (*machine.kernel)();
    } catch (...) {
        machine.failure = std::current_exception();
    }
    Fiber& fiber = machine.current->fibers[threadIdx.x];
    fiber.done = true;
    swapcontext(&fiber.context, &machine.scheduler);
}

std::unique_ptr<Block> begin(unsigned number, unsigned threads, std::size_t memory_bytes) {
    auto block = std::make_unique<Block>();
    block->place.x = number;
    block->memory.assign(memory_bytes, 0xff);
    block->fibers = std::vector<Fiber>(threads);
    for (Fiber& fiber : block->fibers) {
        getcontext(&fiber.context);
        fiber.context.uc_stack.ss_sp = fiber.stack.get();
        fiber.context.uc_stack.ss_size = kStackBytes;
        fiber.context.uc_link = nullptr;
        makecontext(&fiber.context, fiber_main, 0);
    }
    make_current(*block);
    begin_block(threads, machine.random);
    return block;
}

// Lets a fiber of the current block run until it waits; false if it is done or what it waits for has not come.
bool resume(unsigned thread) {
    Fiber& fiber = machine.current->fibers[thread];
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

// Every thread of the current block in random order, and what runs beside them; false if nothing could go on.
bool run_some() {
    std::vector<unsigned> order(machine.current->fibers.size());
    std::iota(order.begin(), order.end(), 0U);
    std::shuffle(order.begin(), order.end(), machine.random);
    bool progress = false;
    for (const unsigned thread : order) {
        const bool worked = machine.random() % 256 == 0 && do_some_work(machine.random);
        progress = resume(thread) || worked || progress;
    }
    return progress || do_some_work(machine.random);
}

bool done(const Block& block) {
    return std::all_of(block.fibers.begin(), block.fibers.end(), [](const Fiber& fiber) { return fiber.done; });
}

// Resident blocks, those that are done no longer; false if none of them could go on. Some are far behind others.
bool run_resident() {
    bool progress = false;
    for (std::size_t i = 0; i < machine.resident.size(); ++i) {
        make_current(*machine.resident[i]);
        for (auto times = machine.random() % 3; times > 0; --times) {
            progress = run_some() || progress;
        }
        if (done(*machine.resident[i])) {
            end_block();
            machine.resident.erase(machine.resident.begin() + static_cast<std::ptrdiff_t>(i--));
            progress = true;
        }
    }
    return progress;
}

}  // namespace

void run_grid(unsigned blocks, unsigned threads, std::size_t shared_bytes, const std::function<void()>& kernel) {
    constexpr std::size_t kAtom = 1024;
    constexpr int kRoundsOfDeadlock = 64;  // a block may have been left out of some
    machine.kernel = &kernel;
    machine.resident.clear();
    gridDim.x = blocks;
    int idle = 0;
    for (unsigned begun = 0; begun < blocks || !machine.resident.empty();) {
        while (begun < blocks && machine.resident.size() < machine.most_resident) {
            machine.resident.push_back(begin(begun++, threads, shared_bytes + 3 * kAtom));
        }
        idle = run_resident() ? 0 : idle + 1;
        require(idle < kRoundsOfDeadlock, "deadlock: {} blocks, the first of them {}, wait for what nobody will do",
                machine.resident.size(), machine.resident.front()->place.x);
    }
}

void set_seed(unsigned seed) {
    machine.random.seed(seed);
}
void set_resident(unsigned blocks) {
    machine.most_resident = blocks;
}

// On the host, too, the first byte lies 16 beyond an atom.
std::uint8_t* shared_bytes() {
    constexpr std::uintptr_t kAtom = 1024;
    std::uint8_t* memory = machine.current->memory.data();
    const auto first = reinterpret_cast<std::uintptr_t>(memory);
    return memory + ((kAtom - first % kAtom) % kAtom + kFirstAddress % kAtom);
}
std::uint32_t shared_address(const void* pointer) {
    return static_cast<std::uint32_t>(static_cast<const std::uint8_t*>(pointer) - shared_bytes()) + kFirstAddress;
}
std::uint8_t* at_shared_address(std::uint32_t address) {
    require(address >= kFirstAddress && address - kFirstAddress < machine.current->memory.size(), "shared address {}",
            address);
    return shared_bytes() + (address - kFirstAddress);
}

void wait_until(const std::function<bool()>& condition) {
    Fiber& fiber = machine.current->fibers[threadIdx.x];
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
    NamedBarrier& here = machine.current->barriers[barrier];
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
    Meeting& here = machine.current->warps[threadIdx.x / kWarp];
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
