#include "tests/kernels/emulation/multiprocessor.hpp"

#include <algorithm>
#include <deque>
#include <limits>
#include <map>
#include <utility>

#include "runtime/core/error.hpp"
#include "tests/kernels/emulation/machine.hpp"
#include "tests/kernels/emulation/tensor_map.hpp"

namespace oomb::emulation {
namespace {

constexpr int kWarpgroup = 128, kRows = 64, kDepth = 16;

float of_bfloat16(std::uint16_t bits) {
    const std::uint32_t wide = std::uint32_t{bits} << 16;
    float value = 0;
    std::memcpy(&value, &wide, 4);
    return value;
}

// Registers of accumulators while products are under way; the thread's own hold NaN.
struct Accumulator {
    std::vector<float> values;
    int pending = 0;
};
struct Product {
    int columns = 0;
    Operand a, b;
    bool accumulate = false;
    std::vector<float*> d = std::vector<float*>(kWarpgroup);
    std::vector<const std::uint32_t*> registers = std::vector<const std::uint32_t*>(kWarpgroup);
    int issued = 0;  // by so many threads
};
struct Warpgroup {
    std::deque<Product> products;  // not done yet
    std::uint64_t done = 0;
    std::map<float*, Accumulator> accumulators;
};
struct Thread {
    std::uint64_t issued = 0;
    std::vector<std::uint64_t> groups;  // products issued at each end
    int adds = 0;                       // under way
};
struct Copy {
    TensorMap map;
    std::uint32_t address;
    std::vector<std::int64_t> at;
    Barrier* barrier;  // null: an addition
    Thread* thread;
};

enum Kind { kLoads, kAdditions, kProducts, kKinds };

}  // namespace

struct Multiprocessor {
    std::vector<Warpgroup> warpgroups;
    std::vector<Thread> threads;
    std::vector<Copy> copies;
    double temper[kKinds] = {};
};

namespace {

Multiprocessor* here = nullptr;

std::uint32_t swizzled(std::uint32_t address) {
    return address ^ ((address >> 7 & 7) << 4);
}

// Address of element (i, depth) of an operand, as tests/kernels/hopper_layout_test.cpp has it from PTX.
float element(const Operand& operand, int i, int depth) {
    const auto field = [&](int bit) { return static_cast<std::uint32_t>(operand.descriptor >> bit & 0x3FFF) * 16; };
    require(operand.descriptor >> 62 == 1, "a descriptor without the 128-byte swizzle");
    const std::uint32_t leading = field(16), stride = field(32);
    const std::uint32_t offset = operand.along_rows
                                     ? i / 64 * leading + i % 64 * 2 + depth / 8 * stride + depth % 8 * 128
                                     : i / 8 * stride + i % 8 * 128 + depth * 2;
    std::uint16_t bits = 0;
    std::memcpy(&bits, at_shared_address(swizzled(field(0) + offset)), 2);
    return of_bfloat16(bits);
}

std::vector<float> matrix_of(const Operand& operand, int rows) {
    std::vector<float> matrix(rows * kDepth);
    for (int i = 0; i < rows * kDepth; ++i) {
        matrix[i] = element(operand, i / kDepth, i % kDepth);
    }
    return matrix;
}

// PTX ISA, fragments of wgmma .m64nNk16: rows and columns of a thread's registers.
int row_of(int thread, int i) {
    return thread / 32 * 16 + thread % 32 / 4 + (i & 2) * 4;
}
int column_of(int thread, int i) {
    return i / 4 * 8 + thread % 4 * 2 + (i & 1);
}

std::vector<float> registers_of(const Product& product) {
    std::vector<float> matrix(kRows * kDepth);
    for (int thread = 0; thread < kWarpgroup; ++thread) {
        for (int i = 0; i < 8; ++i) {
            const std::uint32_t pair = product.registers[thread][i / 2];
            matrix[row_of(thread, i) * kDepth + column_of(thread, i)] =
                of_bfloat16(static_cast<std::uint16_t>(i % 2 == 0 ? pair & 0xFFFF : pair >> 16));
        }
    }
    return matrix;
}

void do_product(Warpgroup& group) {
    const Product& product = group.products.front();
    const auto a = product.registers[0] != nullptr ? registers_of(product) : matrix_of(product.a, kRows);
    const auto b = matrix_of(product.b, product.columns);
    for (int thread = 0; thread < kWarpgroup; ++thread) {
        Accumulator& sums = group.accumulators.at(product.d[thread]);
        for (int i = 0; i < product.columns / 2; ++i) {
            const float* row = &a[row_of(thread, i) * kDepth];
            const float* column = &b[column_of(thread, i) * kDepth];
            float sum = product.accumulate ? sums.values[i] : 0.0F;
            for (int k = 0; k < kDepth; ++k) {
                sum += row[k] * column[k];
            }
            sums.values[i] = sum;
        }
        if (--sums.pending == 0) {
            std::copy(sums.values.begin(), sums.values.end(), product.d[thread]);
            group.accumulators.erase(product.d[thread]);
        }
    }
    group.products.pop_front();
    ++group.done;
}

void do_copy(const Copy& copy) {
    const TensorMap& map = copy.map;
    int place = 0;  // of a row of 128 bytes in the box
    for (int c3 = 0; c3 < map.box[3]; ++c3) {
        for (int c2 = 0; c2 < map.box[2]; ++c2) {
            for (int c1 = 0; c1 < map.box[1]; ++c1, ++place) {
                for (int c0 = 0; c0 < map.box[0]; ++c0) {
                    const std::int64_t at[] = {copy.at[0] + c0, copy.at[1] + c1, copy.at[2] + c2, copy.at[3] + c3};
                    bool inside = true;
                    std::int64_t offset = 0;
                    for (int i = 0; i < 4; ++i) {
                        inside = inside && at[i] >= 0 && at[i] < map.sizes[i];
                        offset += at[i] * map.strides[i];
                    }
                    const std::uint32_t address = copy.address + place * 128 + c0 * map.element_bytes;
                    std::uint8_t* shared = at_shared_address(swizzled(address));
                    if (copy.barrier == nullptr && inside) {
                        float sum = 0, part = 0;
                        std::memcpy(&sum, map.base + offset, 4);
                        std::memcpy(&part, shared, 4);
                        sum += part;
                        std::memcpy(map.base + offset, &sum, 4);
                    } else if (copy.barrier != nullptr && inside) {
                        std::memcpy(shared, map.base + offset, map.element_bytes);
                    } else if (copy.barrier != nullptr) {
                        std::memset(shared, 0, map.element_bytes);
                    }
                }
            }
        }
    }
    if (copy.barrier != nullptr) {
        copy.barrier->come(place * 128);
    } else {
        --copy.thread->adds;
    }
}

Copy copy_of(const void* map, const std::vector<std::int64_t>& coordinates, const void* shared) {
    Copy copy{{}, shared_address(shared), coordinates, nullptr, &here->threads[threadIdx.x]};
    std::memcpy(&copy.map, map, sizeof(copy.map));
    copy.at.resize(4);
    require(copy.address % 128 == 0, "a box at shared address {}, which is no multiple of 128", copy.address);
    return copy;
}

Warpgroup& own_warpgroup() {
    return here->warpgroups[threadIdx.x / kWarpgroup];
}

}  // namespace

std::shared_ptr<Multiprocessor> make_multiprocessor() {
    return std::make_shared<Multiprocessor>();
}
void use(Multiprocessor& block) {
    here = &block;
}

void begin_block(unsigned count, std::mt19937& random) {
    for (double& eagerness : here->temper) {
        eagerness = random() % 2 == 0 ? 1 : 64;
    }
    here->threads.assign(count, {});
    here->warpgroups.assign((count + kWarpgroup - 1) / kWarpgroup, {});
    here->copies.clear();
}
void end_block() {
    require(here->copies.empty(), "a block ends with {} copies under way", here->copies.size());
    for (const Warpgroup& group : here->warpgroups) {
        require(group.products.empty(), "a warpgroup ends with {} products under way", group.products.size());
    }
}
unsigned threads_of_block() {
    return static_cast<unsigned>(here->threads.size());
}

// Each block has a temper: of loads, additions and products some kinds are 64 times as eager as others.
bool do_some_work(std::mt19937& random) {
    std::vector<double> eagerness;
    for (const Copy& copy : here->copies) {
        eagerness.push_back(here->temper[copy.barrier != nullptr ? kLoads : kAdditions]);
    }
    for (const Warpgroup& group : here->warpgroups) {
        const bool ready = !group.products.empty() && group.products.front().issued == kWarpgroup;
        eagerness.push_back(ready ? here->temper[kProducts] : 0);
    }
    if (std::all_of(eagerness.begin(), eagerness.end(), [](double e) { return e == 0; })) {
        return false;
    }
    const std::size_t choice = std::discrete_distribution<std::size_t>(eagerness.begin(), eagerness.end())(random);
    if (choice >= here->copies.size()) {
        do_product(here->warpgroups[choice - here->copies.size()]);
        return true;
    }
    const auto at = here->copies.begin() + static_cast<std::ptrdiff_t>(choice);
    const Copy copy = *at;
    here->copies.erase(at);
    do_copy(copy);
    return true;
}

void copy_box(void* to, const void* map, const std::vector<std::int64_t>& coordinates, Barrier& barrier) {
    here->copies.push_back(copy_of(map, coordinates, to));
    here->copies.back().barrier = &barrier;
}
void add_box(const void* map, const std::vector<std::int64_t>& coordinates, const void* from) {
    here->copies.push_back(copy_of(map, coordinates, from));
    ++here->threads[threadIdx.x].adds;
}
void wait_adds() {
    const Thread& thread = here->threads[threadIdx.x];
    wait_until([&thread] { return thread.adds == 0; });
}

void multiply(float* d, int columns, const std::uint32_t* a, Operand of_a, Operand of_b, bool accumulate) {
    Warpgroup& group = own_warpgroup();
    Thread& thread = here->threads[threadIdx.x];
    const auto place = static_cast<std::size_t>(thread.issued++ - group.done);
    if (place == group.products.size()) {
        group.products.push_back({columns, of_a, of_b, accumulate});
    }
    Product& product = group.products[place];
    require(product.columns == columns && product.b.descriptor == of_b.descriptor &&
                product.a.descriptor == of_a.descriptor && product.accumulate == accumulate,
            "threads of a warpgroup disagree about a product");
    const int slot = static_cast<int>(threadIdx.x) % kWarpgroup;
    product.d[slot] = d;
    product.registers[slot] = a;
    ++product.issued;
    Accumulator& sums = group.accumulators[d];
    if (sums.pending++ == 0) {
        sums.values.assign(d, d + columns / 2);
    }
    std::fill_n(d, columns / 2, std::numeric_limits<float>::quiet_NaN());
}
void commit_products() {
    Thread& thread = here->threads[threadIdx.x];
    thread.groups.push_back(thread.issued);
}
void wait_products(int pending) {
    meet_in_warp(0);
    const Thread& thread = here->threads[threadIdx.x];
    const auto groups = static_cast<int>(thread.groups.size());
    if (groups > pending) {
        const std::uint64_t products = thread.groups[groups - pending - 1];
        const Warpgroup& group = own_warpgroup();
        wait_until([&group, products] { return group.done >= products; });
    }
}

}  // namespace oomb::emulation
