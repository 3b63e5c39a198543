#include "profiler/analysis/roofline.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>
#include <unordered_map>

#include "profiler/analysis/overlap.hpp"
#include "runtime/schedule/flops.hpp"
#include "runtime/schedule/generator.hpp"
#include "runtime/schedule/optimizer_schedule.hpp"

namespace oomb::profiler {
namespace {

using schedule::Operation;

// Of a call, or of all calls of an operation, however often it was carried out.
struct Measured {
    std::int64_t busy_ns = 0;
    std::array<std::int64_t, kCopyKinds> copied_bytes{};
    std::int64_t times = 0;

    void add(const Measured& other) {
        busy_ns = add_clamped(busy_ns, other.busy_ns);
        for (std::size_t kind = 0; kind < copied_bytes.size(); ++kind) {
            copied_bytes[kind] = add_clamped(copied_bytes[kind], other.copied_bytes[kind]);
        }
    }
};

std::unordered_map<std::uint32_t, Measured> work_by_call(const Profile& profile) {
    std::unordered_map<std::uint32_t, Measured> calls;
    const auto add = [&](const auto& record) -> Measured& {
        Measured& work = calls[record.correlation];
        work.busy_ns = add_clamped(work.busy_ns, record.end_ns - record.begin_ns);
        return work;
    };
    for (const Kernel& kernel : profile.kernels) {
        add(kernel);
    }
    for (const Memset& memset : profile.memsets) {
        add(memset);
    }
    for (const Copy& copy : profile.copies) {
        std::int64_t& bytes = add(copy).copied_bytes[static_cast<std::size_t>(copy.kind)];
        bytes = add_clamped(bytes, copy.bytes);
    }
    return calls;
}

// The sequences of a step cost the same.
std::uint64_t key_of(schedule::OperationId id) {
    id.sequence = 0;
    return schedule::pack(id);
}

// By key. Calls are numbered as they are made, so those of one operation in one step stand together.
std::unordered_map<std::uint64_t, Measured> work_by_operation(const Profile& profile) {
    const auto calls = work_by_call(profile);
    std::unordered_map<std::uint64_t, Measured> operations;
    const OperationMark* before = nullptr;
    bool counted = false;
    for (const OperationMark& mark : profile.marks) {
        counted = counted && before != nullptr && before->operation == mark.operation;
        before = &mark;
        const auto call = calls.find(mark.correlation);
        const auto id = profile.operation_of(mark.correlation);
        if (call == calls.end() || !id) {
            continue;
        }
        Measured& work = operations[key_of(*id)];
        work.add(call->second);
        work.times += counted ? 0 : 1;
        counted = true;
    }
    return operations;
}

// Bytes of HBM that an operation reads and writes at least.
double memory_bytes(const schedule::GemmCost& cost, const RunConfiguration& run) {
    const auto m = static_cast<double>(cost.m), n = static_cast<double>(cost.n), k = static_cast<double>(cost.k);
    const auto element = static_cast<double>(bytes_of(cost.dtype));
    const double output = m * n * (cost.accumulates ? 2 * static_cast<double>(bytes_of(run.gradient_type())) : element);
    return (m * k + k * n) * element + output;
}

// Forward: queries and output, keys and values. Backward: the gradients of all four too.
double memory_bytes(const schedule::AttentionCost& cost) {
    const std::int64_t tensors = cost.backward ? 4 : 2;
    const std::int64_t elements =
        tensors * cost.head_dim * (cost.queries * cost.query_heads + cost.keys * cost.kv_heads);
    return static_cast<double>(elements * bytes_of(cost.dtype));
}

double nanoseconds(double amount, double per_second) {
    return per_second > 0 ? amount * 1e9 / per_second : 0;
}

class UnderRoof : public schedule::OperationSink {
  public:
    UnderRoof(std::unordered_map<std::uint64_t, Measured> work, const RunConfiguration& run, const Roofs& roofs)
        : work_(std::move(work)), run_(run), roofs_(roofs) {}

    void take(const Operation& operation) override {
        const auto found = work_.find(key_of(operation.id));
        if (found == work_.end()) {
            return;
        }
        const Measured& work = found->second;
        const bool copies = std::holds_alternative<schedule::CopyCost>(operation.cost);
        const Amount amount = copies ? copied(work) : computed(operation.cost, static_cast<double>(work.times));
        Kind& kind = kinds_[operation.id.kind];
        kind.row.count += work.times;
        kind.row.busy_ns = add_clamped(kind.row.busy_ns, work.busy_ns);
        kind.row.flops += amount.flops;
        kind.row.bytes += amount.bytes;
        // Without the roof of compute nothing is known of what has FLOPs.
        const bool known = amount.flops == 0 || roofs_.flops > 0;
        kind.row.least_ns += known ? std::max({amount.compute_ns, amount.memory_ns, amount.bus_ns}) : 0;
        kind.compute_ns += amount.compute_ns;
        kind.memory_ns += amount.memory_ns;
        kind.bus_ns += amount.bus_ns;
    }

    std::vector<RooflineRow> finish() {
        std::vector<RooflineRow> list;
        for (auto& [number, kind] : kinds_) {
            kind.row.name = schedule::name_of(number);
            kind.row.kind = number;
            kind.row.bound = kind.bus_ns > std::max(kind.compute_ns, kind.memory_ns) ? Bound::kBus
                             : kind.compute_ns > kind.memory_ns                      ? Bound::kCompute
                                                                                     : Bound::kMemory;
            list.push_back(kind.row);
        }
        return list;
    }

  private:
    struct Amount {
        double flops = 0, bytes = 0;
        double compute_ns = 0, memory_ns = 0, bus_ns = 0;  // that each takes at least
    };
    struct Kind {
        RooflineRow row;
        double compute_ns = 0, memory_ns = 0, bus_ns = 0;
    };

    // What travelled: pages that were in place did not.
    Amount copied(const Measured& work) const {
        const auto bytes = [&](CopyKind kind) {
            return static_cast<double>(work.copied_bytes[static_cast<std::size_t>(kind)]);
        };
        const double up = bytes(CopyKind::kHostToDevice), down = bytes(CopyKind::kDeviceToHost);
        const double within = 2 * bytes(CopyKind::kDeviceToDevice);  // read and written
        return {.bytes = up + down + within,
                .memory_ns = nanoseconds(within, roofs_.memory_bytes),
                .bus_ns = nanoseconds(up, roofs_.to_device_bytes) + nanoseconds(down, roofs_.to_host_bytes)};
    }

    Amount computed(const schedule::Cost& cost, double times) const {
        double bytes = 0;
        if (const auto* product = std::get_if<schedule::GemmCost>(&cost)) {
            bytes = times * memory_bytes(*product, run_);
        } else if (const auto* attention = std::get_if<schedule::AttentionCost>(&cost)) {
            bytes = times * memory_bytes(*attention);
        } else if (const auto* pass = std::get_if<schedule::ElementwiseCost>(&cost)) {
            bytes = times * static_cast<double>(pass->bytes);
        }
        const double flops = times * schedule::flops_of(cost);
        return {.flops = flops,
                .bytes = bytes,
                .compute_ns = nanoseconds(flops, roofs_.flops),
                .memory_ns = nanoseconds(bytes, roofs_.memory_bytes)};
    }

    std::unordered_map<std::uint64_t, Measured> work_;
    const RunConfiguration& run_;
    Roofs roofs_;
    std::map<schedule::Kind, Kind> kinds_;
};

}  // namespace

Roofs roofs_of(const HardwareProfile& hardware, DType compute) {
    const auto products = hardware.gemm_flops.find(compute);
    return {.flops = products == hardware.gemm_flops.end() ? 0 : products->second.per_second,
            .memory_bytes = hardware.hbm_copy_bytes.per_second,
            .to_device_bytes = hardware.host_to_device_bytes.per_second,
            .to_host_bytes = hardware.device_to_host_bytes.per_second};
}

std::string_view name_of(Bound bound) {
    switch (bound) {
        case Bound::kCompute:
            return "compute";
        case Bound::kMemory:
            return "memory";
        case Bound::kBus:
            return "bus";
    }
    return "";
}

std::vector<RooflineRow> copies_under_roof(const Profile& profile, const Roofs& roofs) {
    std::vector<RooflineRow> rows;
    const std::vector<DeviceOverlap> devices = overlap_of(profile);
    for (const CopyKind kind : {CopyKind::kHostToDevice, CopyKind::kDeviceToHost}) {
        RooflineRow row{.name = fmt::format("copies {}", name_of(kind)), .bound = Bound::kBus};
        for (const DeviceOverlap& overlap : devices) {
            const DirectionTime& direction = overlap.directions[static_cast<std::size_t>(kind)];
            row.count += direction.copies;
            row.busy_ns = add_clamped(row.busy_ns, direction.busy_ns);
            row.bytes += static_cast<double>(direction.bytes);
        }
        const double roof = kind == CopyKind::kHostToDevice ? roofs.to_device_bytes : roofs.to_host_bytes;
        row.least_ns = nanoseconds(row.bytes, roof);
        if (row.count > 0) {
            rows.push_back(row);
        }
    }
    return rows;
}

std::vector<RooflineRow> operations_under_roof(const Profile& profile, const schedule::StepShape& step,
                                               const Roofs& roofs) {
    UnderRoof sink(work_by_operation(profile), step.run(), roofs);
    schedule::SequenceGenerator(step, 0, 1, sink).generate();
    schedule::generate_optimizer(step, sink);
    return sink.finish();
}

}  // namespace oomb::profiler
