// GB/s between pinned host memory and HBM: the transfer engine beside a loop of cudaMemcpyAsync and one large copy.
//
//     transfer_bench OUT.json [REPETITIONS]
//
// Pages lie in random order in HBM, and on the host in random order or one behind the other, as a pool hands out fresh
// frames. Each row is the median over the repetitions, the directions alone and both at once; bytes count once per
// direction, GB are 10^9 bytes, times are those of events in the stream.
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <numeric>
#include <random>
#include <string>
#include <vector>

#include "runtime/core/json.hpp"
#include "runtime/core/text_file.hpp"
#include "runtime/device/check.hpp"
#include "runtime/device/device_info.hpp"
#include "runtime/device/hbm_arena.hpp"
#include "runtime/device/host_arena.hpp"
#include "runtime/device/transfer_engine.hpp"

namespace oomb::device {
namespace {

constexpr std::int64_t kTotal_bytes = kGiB;     // per direction and repetition
constexpr std::int64_t kSpan_bytes = 2 * kGiB;  // that the pages of a direction are taken from
constexpr Direction kDirections[] = {Direction::kHostToDevice, Direction::kDeviceToHost};

enum class Method : std::uint8_t { kEngine, kLoop, kOneCopy };
enum class HostOrder : std::uint8_t { kRandom, kAscending };

struct Case {
    Method method;
    std::int64_t page_bytes;
    HostOrder host_order;
};

std::string name_of(Method method) {
    return method == Method::kEngine ? "engine" : method == Method::kLoop ? "loop" : "one_copy";
}

double seconds_since(std::chrono::steady_clock::time_point begin) {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

double median(std::vector<double> values) {
    std::ranges::sort(values);
    return values[values.size() / 2];
}

struct Machine {
    DeviceInfo info = open_device();
    HbmArena hbm{2 * kSpan_bytes};
    double arena_seconds = 0.0;
    HostArena host = make_host(*this);
    TransferEngine engine{hbm.view(), host.view()};

    static HostArena make_host(Machine& machine) {
        const auto begin = std::chrono::steady_clock::now();
        HostArenaOptions options;
        options.numa_node = machine.info.numa_node;
        options.progress = [&](std::int64_t, std::int64_t) { machine.arena_seconds = seconds_since(begin); };
        return HostArena(2 * kSpan_bytes, options);
    }
};

std::vector<std::int64_t> random_frames(std::int64_t page_bytes, unsigned seed) {
    std::vector<std::int64_t> frames(static_cast<std::size_t>(kSpan_bytes / page_bytes));
    std::iota(frames.begin(), frames.end(), 0);
    std::shuffle(frames.begin(), frames.end(), std::mt19937(seed));
    return frames;
}

// Each direction has a half of both arenas to itself.
std::vector<Copy> pages_of(Direction direction, const Case& what) {
    const auto half = static_cast<std::int64_t>(direction) * kSpan_bytes;
    const std::int64_t page_bytes = what.page_bytes;
    std::vector<std::int64_t> host = random_frames(page_bytes, 1);
    const std::vector<std::int64_t> device = random_frames(page_bytes, 2);
    if (what.host_order == HostOrder::kAscending) {
        std::ranges::sort(host);
    }
    std::vector<Copy> copies;
    for (std::size_t i = 0; i < static_cast<std::size_t>(kTotal_bytes / page_bytes); ++i) {
        copies.push_back({half + host[i] * page_bytes, half + device[i] * page_bytes, page_bytes});
    }
    return copies;
}

void enqueue(Machine& machine, Method method, Direction direction, std::span<const Copy> copies) {
    if (method == Method::kEngine) {
        machine.engine.enqueue(direction, copies);
        return;
    }
    const bool up = direction == Direction::kHostToDevice;
    for (const Copy& copy : copies) {
        std::byte* const host = machine.host.view().at(copy.host_offset, copy.bytes);
        std::byte* const device = machine.hbm.view().at(copy.device_offset, copy.bytes);
        OOMB_CUDA(cudaMemcpyAsync(up ? device : host, up ? host : device, static_cast<std::size_t>(copy.bytes),
                                  up ? cudaMemcpyHostToDevice : cudaMemcpyDeviceToHost,
                                  machine.engine.stream(direction).get()));
    }
}

// What one repetition gave, per direction.
struct Reading {
    double gb_per_s[2] = {0.0, 0.0};
    double host_share = 0.0;  // of the time that passed, spent in enqueueing
};

Reading read_once(Machine& machine, Method method, std::span<const Direction> directions,
                  const std::vector<Copy> (&pages)[2]) {
    const Event begin[2] = {Event(Timing::kOn), Event(Timing::kOn)}, end[2] = {Event(Timing::kOn), Event(Timing::kOn)};
    const auto started = std::chrono::steady_clock::now();
    for (const Direction direction : directions) {
        machine.engine.stream(direction).enqueue_record(begin[static_cast<std::size_t>(direction)].get());
    }
    // One thread feeds both directions in turns, a batch at a time.
    for (std::size_t first = 0; first < pages[0].size(); first += CopyBatch::kMaxCopies) {
        for (const Direction direction : directions) {
            const std::span<const Copy> all = pages[static_cast<std::size_t>(direction)];
            enqueue(machine, method, direction,
                    all.subspan(first, std::min<std::size_t>(CopyBatch::kMaxCopies, all.size() - first)));
        }
    }
    for (const Direction direction : directions) {
        machine.engine.stream(direction).enqueue_record(end[static_cast<std::size_t>(direction)].get());
    }
    const double enqueued = seconds_since(started);
    machine.engine.wait_idle();
    Reading reading;
    reading.host_share = enqueued / seconds_since(started);
    for (const Direction direction : directions) {
        const auto i = static_cast<std::size_t>(direction);
        reading.gb_per_s[i] = static_cast<double>(kTotal_bytes) / milliseconds_between(begin[i], end[i]) * 1e-6;
    }
    return reading;
}

Json measure(Machine& machine, const Case& what, std::span<const Direction> directions, int repetitions) {
    const std::vector<Copy> pages[2] = {pages_of(kDirections[0], what), pages_of(kDirections[1], what)};
    read_once(machine, what.method, directions, pages);
    std::vector<double> rates[2], shares;
    for (int i = 0; i < repetitions; ++i) {
        const Reading reading = read_once(machine, what.method, directions, pages);
        rates[0].push_back(reading.gb_per_s[0]);
        rates[1].push_back(reading.gb_per_s[1]);
        shares.push_back(reading.host_share);
    }
    Json row = {{"method", name_of(what.method)},
                {"page_bytes", what.page_bytes},
                {"host_order", what.host_order == HostOrder::kRandom ? "random" : "ascending"},
                {"both_at_once", directions.size() == 2}};
    row["host_thread_share"] = median(shares);
    for (const Direction direction : directions) {
        const auto i = static_cast<std::size_t>(direction);
        const auto [least, most] = std::ranges::minmax(rates[i]);
        row[i == 0 ? "host_to_device" : "device_to_host"] = {
            {"median_gb_per_s", median(rates[i])}, {"least_gb_per_s", least}, {"most_gb_per_s", most}};
    }
    fmt::print("{}\n", row.dump());
    return row;
}

Json all_rows(Machine& machine, int repetitions) {
    Json rows = Json::array();
    const auto add = [&](Method method, std::int64_t page_bytes, HostOrder order = HostOrder::kRandom) {
        const std::span<const Direction> all = kDirections;
        for (const auto directions : {all.first(1), all.last(1), all}) {
            rows.push_back(measure(machine, {method, page_bytes, order}, directions, repetitions));
        }
    };
    add(Method::kOneCopy, kTotal_bytes);
    for (const std::int64_t page_bytes : {64 * kKiB, 128 * kKiB, 256 * kKiB, kMiB}) {
        add(Method::kEngine, page_bytes);
        add(Method::kEngine, page_bytes, HostOrder::kAscending);
        add(Method::kLoop, page_bytes);
    }
    return rows;
}

void run(const std::string& path, int repetitions) {
    Machine machine;
    const Json result = {{"format", "oomb-transfer-bench"},
                         {"version", 1},
                         {"gpu", machine.info.name},
                         {"driver_cuda_version", machine.info.driver_version},
                         {"numa_node", machine.info.numa_node},
                         {"on_numa_node", machine.host.on_numa_node()},
                         {"host_arena", {{"bytes", machine.host.bytes()}, {"seconds", machine.arena_seconds}}},
                         {"bytes_per_repetition", kTotal_bytes},
                         {"repetitions", repetitions},
                         {"rows", all_rows(machine, repetitions)},
                         {"batched", machine.engine.batched()}};
    write_text_file(path, result.dump(2) + "\n");
}

int bench(int argc, char** argv) {
    const int repetitions = argc > 2 ? std::atoi(argv[2]) : 15;
    if (argc < 2 || argc > 3 || repetitions < 1) {
        fmt::print(stderr, "usage: transfer_bench OUT.json [REPETITIONS]\n");
        return static_cast<int>(ExitCode::kWrongUsage);
    }
    try {
        run(argv[1], repetitions);
    } catch (const Error& error) {
        fmt::print(stderr, "transfer_bench: {}\n", error.what());
        return static_cast<int>(error.exit_code());
    }
    return 0;
}

}  // namespace
}  // namespace oomb::device

int main(int argc, char** argv) {
    return oomb::device::bench(argc, argv);
}
