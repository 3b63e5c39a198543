#include "simulator/costs/shape_times.hpp"

#include <algorithm>
#include <array>
#include <map>
#include <optional>
#include <unordered_map>

#include "runtime/core/error.hpp"
#include "runtime/core/units.hpp"
#include "runtime/schedule/flops.hpp"
#include "runtime/schedule/generator.hpp"
#include "runtime/schedule/optimizer_schedule.hpp"

namespace oomb::simulator {
namespace {

using schedule::AttentionCost;
using schedule::CopyCost;
using schedule::Cost;
using schedule::ElementwiseCost;
using schedule::Engine;
using schedule::GemmCost;
using schedule::Kind;
using schedule::Operation;
using trace::TraceRecord;

struct Work {
    Cost cost;
    std::int64_t rows = 0;
};

class CollectWork : public schedule::OperationSink {
  public:
    void take(const Operation& operation) override {
        work.emplace(pack(operation.id), Work{operation.cost, operation.rows});
    }
    std::unordered_map<std::uint64_t, Work> work;
};

std::unordered_map<std::uint64_t, Work> work_of(const schedule::StepShape& step) {
    CollectWork collect;
    schedule::SequenceGenerator(step, 0, 1, collect).generate();
    schedule::generate_optimizer(step, collect);
    return std::move(collect.work);
}

// Shapes are equal where these numbers are. Of attention it counts how many pairs there are, not where.
std::vector<std::int64_t> key_of(const ShapeTime& shape) {
    std::vector<std::int64_t> key = {static_cast<int>(shape.kind), static_cast<int>(shape.engine), shape.rows,
                                     shape.part, shape.both ? 1 : 0};
    if (const auto* gemm = std::get_if<GemmCost>(&shape.cost)) {
        key.insert(key.end(), {gemm->m, gemm->n, gemm->k});
    } else if (const auto* attention = std::get_if<AttentionCost>(&shape.cost)) {
        const auto pairs = static_cast<std::int64_t>(schedule::attention_pairs(*attention));
        key.insert(key.end(),
                   {attention->queries, attention->keys, attention->first_query == attention->first_key, pairs});
    } else if (const auto* copy = std::get_if<CopyCost>(&shape.cost)) {
        key.insert(key.end(), {copy->bytes, copy->pages});
    } else if (const auto* pass = std::get_if<ElementwiseCost>(&shape.cost)) {
        key.push_back(pass->bytes);
    }
    return key;
}

bool names_parts(Kind kind) {
    return kind == Kind::kLinearQkv || kind == Kind::kRope;
}

bool copies(Engine engine) {
    return engine == Engine::kHostToDevice || engine == Engine::kDeviceToHost;
}

// Whether a copy ran beside one of the other direction, from its begin and for most of its time: true, not at
// all: false, something between: nothing. `others` stand in the order of their begins.
std::optional<bool> in_company(const TraceRecord& record, const std::vector<TraceRecord>& others) {
    constexpr double kMostly = 0.75;
    std::int64_t beside = 0;
    auto other = std::ranges::upper_bound(others, record.begin_ns, {}, &TraceRecord::end_ns);
    const bool at_begin = other != others.end() && other->begin_ns <= record.begin_ns;
    for (; other != others.end() && other->begin_ns < record.end_ns; ++other) {
        beside += std::min(record.end_ns, other->end_ns) - std::max(record.begin_ns, other->begin_ns);
    }
    const double share = static_cast<double>(beside) / static_cast<double>(record.end_ns - record.begin_ns);
    if (at_begin && share >= kMostly) {
        return true;
    }
    return !at_begin && share <= 1 - kMostly ? std::optional(false) : std::nullopt;
}

class Collector {
  public:
    explicit Collector(const schedule::StepShape& step) : step_(step), work_(work_of(step)) {}

    // All of one optimizer step, by engine in the order of their begins.
    void add(const std::array<std::vector<TraceRecord>, schedule::kEngines>& lanes) {
        const auto& to_device = lanes[static_cast<int>(Engine::kHostToDevice)];
        const auto& to_host = lanes[static_cast<int>(Engine::kDeviceToHost)];
        for (const auto& lane : lanes) {
            for (const TraceRecord& record : lane) {
                if (record.begin_ns == record.end_ns) {
                    continue;
                }
                std::optional<bool> both = false;
                if (copies(record.engine)) {
                    both = in_company(record, record.engine == Engine::kHostToDevice ? to_host : to_device);
                }
                if (both) {
                    take(record, *both);
                }
            }
        }
    }

    std::vector<ShapeTime> result() {
        std::vector<ShapeTime> shapes;
        for (auto& [key, entry] : entries_) {
            std::vector<double>& seconds = entry.seconds;
            std::ranges::sort(seconds);
            entry.shape.count = std::ssize(seconds);
            entry.shape.seconds = seconds[seconds.size() / 2];
            entry.shape.low = seconds[seconds.size() / 4];
            entry.shape.high = seconds[seconds.size() * 3 / 4];
            shapes.push_back(entry.shape);
        }
        return shapes;
    }

  private:
    struct Entry {
        ShapeTime shape;
        std::vector<double> seconds;
    };

    void take(const TraceRecord& record, bool both) {
        schedule::OperationId id = record.id;
        id.sequence = 0;
        const auto found = work_.find(pack(id));
        if (found == work_.end()) {
            fail<FileError>("trace: step {} has {}, which its plan does not have", record.step, to_text(record.id));
        }
        ShapeTime shape{.kind = id.kind,
                        .engine = record.engine,
                        .cost = found->second.cost,
                        .rows = found->second.rows,
                        .part = names_parts(id.kind) ? id.part : 0,
                        .both = both,
                        .deterministic = step_.run().deterministic};
        if (copies(record.engine)) {
            if (record.bytes == 0) {
                return;  // every page was in place
            }
            shape.cost = CopyCost{record.bytes, record.pages};
        }
        Entry& entry = entries_[key_of(shape)];
        entry.shape = shape;
        entry.seconds.push_back(static_cast<double>(record.end_ns - record.begin_ns) * 1e-9);
    }

    const schedule::StepShape& step_;
    std::unordered_map<std::uint64_t, Work> work_;
    std::map<std::vector<std::int64_t>, Entry> entries_;
};

}  // namespace

RecordedShapes shape_times(trace::TraceReader& reader, const schedule::StepShape& step) {
    Collector collector(step), first(step);
    std::array<std::vector<TraceRecord>, schedule::kEngines> lanes;
    std::int64_t steps = 0, number = 0, operations = 0, of_first = 0;
    const auto end_step = [&] {
        if (number != 0) {
            of_first = steps == 0 ? operations : of_first;
            (++steps == 1 ? first : collector).add(lanes);
        }
        for (auto& lane : lanes) {
            lane.clear();
        }
        operations = 0;
    };
    for (TraceRecord record; reader.next(record);) {
        if (record.step != number) {
            end_step();
            number = record.step;
        }
        lanes[static_cast<std::size_t>(record.engine)].push_back(record);
        ++operations;
    }
    RecordedShapes shapes;
    if (reader.truncated()) {
        shapes.notes.push_back(fmt::format("Left out: step {}, the last line of the trace is cut off.", number));
    } else if (operations < of_first) {
        shapes.notes.push_back(fmt::format("Left out: step {} has {} operations, the first one {}.", number,
                                           format_count(operations), format_count(of_first)));
    } else {
        end_step();
    }
    if (steps == 0) {
        fail<FileError>("trace: holds no whole step");
    }
    shapes.times = (steps > 1 ? collector : first).result();
    return shapes;
}

}  // namespace oomb::simulator
