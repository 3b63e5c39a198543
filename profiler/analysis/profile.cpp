#include "profiler/analysis/profile.hpp"

#include <algorithm>
#include <map>

#include "runtime/trace/names.hpp"

namespace oomb::profiler {
namespace {

constexpr StringId kMostStrings = ProfileWriter::kMostStrings + 2;  // a file may name any number

template <class List>
void sort_by_begin(List& list) {
    std::stable_sort(list.begin(), list.end(), [](const auto& a, const auto& b) { return a.begin_ns < b.begin_ns; });
}

template <class List>
void sort_by_time(List& list) {
    std::stable_sort(list.begin(), list.end(), [](const auto& a, const auto& b) { return a.at_ns < b.at_ns; });
}

// Takes out what has no usable time, counts the rest.
template <class List>
void judge(List& list, RecordFaults& faults) {
    std::map<std::pair<std::uint32_t, std::uint32_t>, std::int64_t> last;  // begin, by device and stream
    std::erase_if(list, [&](const auto& record) {
        if (record.begin_ns == 0 || record.end_ns == 0) {
            faults.without_time += 1;
            return true;
        }
        if (record.end_ns < record.begin_ns) {
            faults.reversed += 1;
            return true;
        }
        faults.zero_length += record.end_ns == record.begin_ns ? 1 : 0;
        std::int64_t& before = last[{record.place.device, record.place.stream}];
        faults.out_of_order += record.begin_ns < before ? 1 : 0;
        before = std::max(before, record.begin_ns);
        return false;
    });
    sort_by_begin(list);
}

}  // namespace

std::optional<schedule::OperationId> Profile::operation_of(std::uint32_t correlation) const {
    const auto found =
        std::lower_bound(marks.begin(), marks.end(), correlation,
                         [](const OperationMark& mark, std::uint32_t c) { return mark.correlation < c; });
    if (!kinds_match || found == marks.end() || found->correlation != correlation) {
        return std::nullopt;
    }
    const schedule::OperationId id = schedule::unpack(found->operation);
    return static_cast<int>(id.kind) < schedule::kKinds ? std::optional(id) : std::nullopt;
}

void ProfileBuilder::add(Record record) {
    struct Take {
        Profile& p;
        void operator()(StringRecord& r) {
            if (r.id < kMostStrings) {
                p.strings.resize(std::max<std::size_t>(p.strings.size(), r.id + 1));
                p.strings[r.id] = std::move(r.text);
            }
        }
        void operator()(const Device& r) {
            if (std::none_of(p.devices.begin(), p.devices.end(),
                             [&](const Device& d) { return d.device == r.device; })) {
                p.devices.push_back(r);
            }
        }
        void operator()(const Kernel& r) { p.kernels.push_back(r); }
        void operator()(const Copy& r) { p.copies.push_back(r); }
        void operator()(const Memset& r) { p.memsets.push_back(r); }
        void operator()(const Memory& r) { p.memory.push_back(r); }
        void operator()(const Marker& r) { p.markers.push_back(r); }
        void operator()(const Synchronization& r) { p.synchronizations.push_back(r); }
        void operator()(const Overhead& r) { p.overheads.push_back(r); }
        void operator()(const OperationMark& r) { p.marks.push_back(r); }
        void operator()(const Losses& r) {
            p.losses.dropped_records = add_clamped(p.losses.dropped_records, r.dropped_records);
            p.losses.unreadable_bytes = add_clamped(p.losses.unreadable_bytes, r.unreadable_bytes);
        }
        // Those of which the time is not known had not returned: nothing is lost with them.
        void operator()(const ApiCall& r) {
            if (r.begin_ns > 0 && r.end_ns >= r.begin_ns) {
                p.calls.push_back(r);
            }
        }
        void operator()(const Counter& r) {
            if (r.end_ns > r.begin_ns) {
                p.counters.push_back(r);
            }
        }
        void operator()(const Note& r) { p.notes.emplace_back(p.text(r.text)); }
    };
    std::visit(Take{profile_}, record);
}

Profile ProfileBuilder::finish(SessionHeader header, const FileFaults& file) {
    Profile& p = profile_;
    p.kinds_match = trace::are_first_of(header.operation_kinds, trace::kind_names());
    p.header = std::move(header);
    p.file = file;
    judge(p.kernels, p.faults);
    judge(p.copies, p.faults);
    judge(p.memsets, p.faults);
    for (const Kernel& kernel : p.kernels) {
        p.faults.unnamed += p.text(kernel.name).empty() ? 1 : 0;
    }
    sort_by_time(p.memory);
    sort_by_time(p.markers);
    sort_by_begin(p.synchronizations);
    sort_by_begin(p.overheads);
    sort_by_begin(p.calls);
    sort_by_begin(p.counters);
    // A driver call within a runtime call has its correlation, and is marked once more.
    const auto less = [](const OperationMark& a, const OperationMark& b) { return a.correlation < b.correlation; };
    const auto same = [](const OperationMark& a, const OperationMark& b) { return a.correlation == b.correlation; };
    std::stable_sort(p.marks.begin(), p.marks.end(), less);
    p.marks.erase(std::unique(p.marks.begin(), p.marks.end(), same), p.marks.end());
    return std::move(profile_);
}

Profile read_profile(const std::filesystem::path& path) {
    ProfileReader reader(path);
    ProfileBuilder builder;
    for (Record record; reader.next(record);) {
        builder.add(std::move(record));
    }
    return builder.finish(reader.header(), reader.faults());
}

}  // namespace oomb::profiler
