#include "profiler/analysis/comparison.hpp"

#include <algorithm>
#include <cstdlib>
#include <limits>
#include <map>
#include <unordered_map>

namespace oomb::profiler {
namespace {

// What an operation gave the device to do, in one step.
struct Instance {
    std::int64_t begin_ns = std::numeric_limits<std::int64_t>::max(), end_ns = 0;
    std::int64_t bytes = 0;

    void add(std::int64_t begin, std::int64_t end, std::int64_t copied) {
        begin_ns = std::min(begin_ns, begin);
        end_ns = std::max(end_ns, end);
        bytes = add_clamped(bytes, copied);
    }
};
using Instances = std::unordered_map<std::uint64_t, std::vector<Instance>>;

std::unordered_map<std::uint32_t, Instance> work_by_call(const Profile& profile) {
    std::unordered_map<std::uint32_t, Instance> calls;
    for (const Kernel& kernel : profile.kernels) {
        calls[kernel.correlation].add(kernel.begin_ns, kernel.end_ns, 0);
    }
    for (const Memset& memset : profile.memsets) {
        calls[memset.correlation].add(memset.begin_ns, memset.end_ns, 0);
    }
    for (const Copy& copy : profile.copies) {
        calls[copy.correlation].add(copy.begin_ns, copy.end_ns, copy.bytes);
    }
    return calls;
}

// Calls are numbered as they are made, so those of one operation in one step stand together.
Instances instances_of(const Profile& profile) {
    const auto calls = work_by_call(profile);
    Instances found;
    const OperationMark* before = nullptr;
    bool open = false;  // the last instance of this operation belongs to this run of calls
    for (const OperationMark& mark : profile.marks) {
        open = open && before != nullptr && before->operation == mark.operation;
        before = &mark;
        const auto work = calls.find(mark.correlation);
        if (work == calls.end() || !profile.operation_of(mark.correlation)) {
            continue;
        }
        std::vector<Instance>& list = found[mark.operation];
        if (!open) {
            list.emplace_back();
            open = true;
        }
        list.back().add(work->second.begin_ns, work->second.end_ns, work->second.bytes);
    }
    return found;
}

bool differs_more(const Comparison::OperationPair& a, const Comparison::OperationPair& b) {
    return std::abs(a.pair.trace_ns - a.pair.profile_ns) > std::abs(b.pair.trace_ns - b.pair.profile_ns);
}

}  // namespace

TimePair& TimePair::operator+=(const TimePair& other) {
    operations += other.operations;
    trace_ns = add_clamped(trace_ns, other.trace_ns);
    profile_ns = add_clamped(profile_ns, other.profile_ns);
    trace_bytes = add_clamped(trace_bytes, other.trace_bytes);
    profile_bytes = add_clamped(profile_bytes, other.profile_bytes);
    return *this;
}

Comparison compare(const Profile& profile, const std::vector<trace::TraceRecord>& records, std::size_t most) {
    const Instances instances = instances_of(profile);
    std::unordered_map<std::uint64_t, std::size_t> seen;
    std::map<schedule::Kind, TimePair> kinds;
    Comparison found;
    std::int64_t matched = 0;
    for (const trace::TraceRecord& record : records) {
        const std::uint64_t id = schedule::pack(record.id);
        const auto list = instances.find(id);
        const std::size_t number = seen[id]++;
        if (list == instances.end() || number >= list->second.size()) {
            found.only_in_trace += 1;
            continue;
        }
        const Instance& instance = list->second[number];
        const TimePair pair{1, std::min(kMostNumber, record.end_ns - record.begin_ns),
                            instance.end_ns - instance.begin_ns, std::min(kMostNumber, record.bytes), instance.bytes};
        ++matched;
        kinds[record.id.kind] += pair;
        found.total += pair;
        found.differ.push_back({record.id, record.step, pair});
    }
    for (const auto& [id, list] : instances) {
        found.only_in_profile += std::ssize(list);
    }
    found.only_in_profile -= matched;
    for (const auto& [kind, pair] : kinds) {
        found.kinds.push_back({kind, pair});
    }
    std::stable_sort(found.differ.begin(), found.differ.end(), differs_more);
    found.differ.resize(std::min(most, found.differ.size()));
    return found;
}

}  // namespace oomb::profiler
