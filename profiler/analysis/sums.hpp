#pragma once
// Time by kernel name, and by operation where oomb-train's NVTX marks say which operation made a call.

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "profiler/analysis/profile.hpp"

namespace oomb::profiler {

struct NameSum {
    std::string name;  // demangled
    std::int64_t count = 0, total_ns = 0, least_ns = 0, most_ns = 0;
};

// Over all devices, the largest total first.
std::vector<NameSum> sums_by_kernel(const Profile& profile);

// Work of operations: durations summed, as they stand beside one another too.
struct OperationSum {
    std::int64_t kernels = 0, kernel_ns = 0;  // memsets too
    std::int64_t copies = 0, copy_ns = 0, copy_bytes = 0;

    OperationSum& operator+=(const OperationSum& other);
    bool operator==(const OperationSum&) const = default;
};

struct OperationSums {
    std::map<schedule::Kind, OperationSum> by_kind;
    std::map<schedule::Phase, OperationSum> by_phase;
    std::map<std::int64_t, OperationSum> by_layer;  // not of the optimizer's phase, which has none
    std::map<std::int64_t, std::map<schedule::Phase, OperationSum>> by_chunk;  // nor chunks
    OperationSum marked, unmarked;                                             // together: all work
    std::int64_t marks_without_work = 0;  // calls that launched nothing: events, waits
};

// None when the profile has no marks.
std::optional<OperationSums> sums_by_operation(const Profile& profile);

// "_Z3addPf" -> "add(float*)"; a name that is not mangled stays.
std::string demangled(std::string_view name);

}  // namespace oomb::profiler
