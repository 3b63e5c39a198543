#include "profiler/analysis/difference.hpp"

#include <algorithm>
#include <cstdlib>

#include "profiler/analysis/steps.hpp"

namespace oomb::profiler {
namespace {

// What either list has, under its key; the side that lacks it stays zero.
template <class Key, class List, class KeyOf, class T>
void put(std::map<Key, BeforeAfter<T>>& all, const List& list, KeyOf key_of, T BeforeAfter<T>::*side) {
    for (const T& item : list) {
        all[key_of(item)].*side = item;
    }
}

std::vector<BeforeAfter<NameSum>> kernels_of(const Profile& before, const Profile& after) {
    std::map<std::string, BeforeAfter<NameSum>> all;
    const auto name_of = [](const NameSum& sum) { return sum.name; };
    put(all, sums_by_kernel(before), name_of, &BeforeAfter<NameSum>::before);
    put(all, sums_by_kernel(after), name_of, &BeforeAfter<NameSum>::after);
    std::vector<BeforeAfter<NameSum>> list;
    for (auto& [name, sums] : all) {
        sums.before.name = sums.after.name = name;
        list.push_back(std::move(sums));
    }
    const auto difference = [](const auto& sums) { return std::abs(sums.after.total_ns - sums.before.total_ns); };
    std::stable_sort(list.begin(), list.end(),
                     [&](const auto& a, const auto& b) { return difference(a) > difference(b); });
    return list;
}

}  // namespace

ProfileDifference difference_of(const Profile& before, const Profile& after) {
    ProfileDifference found{.kernels = kernels_of(before, after)};
    const auto number_of = [](const DeviceOverlap& overlap) { return overlap.device; };
    put(found.devices, overlap_of(before), number_of, &BeforeAfter<DeviceOverlap>::before);
    put(found.devices, overlap_of(after), number_of, &BeforeAfter<DeviceOverlap>::after);
    found.steps = {std::ssize(steps_of(before)), std::ssize(steps_of(after))};
    const auto sums_before = sums_by_operation(before), sums_after = sums_by_operation(after);
    if (sums_before && sums_after && before.kinds_match && after.kinds_match) {
        for (const auto& [kind, sum] : sums_before->by_kind) {
            found.kinds[kind].before = sum;
        }
        for (const auto& [kind, sum] : sums_after->by_kind) {
            found.kinds[kind].after = sum;
        }
    }
    return found;
}

}  // namespace oomb::profiler
