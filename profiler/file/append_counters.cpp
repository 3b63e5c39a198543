#include "profiler/file/append_counters.hpp"

#include <signal.h>

#include <algorithm>
#include <cerrno>
#include <limits>
#include <unordered_map>

#include "profiler/file/profile_reader.hpp"
#include "runtime/core/error.hpp"

namespace oomb::profiler {
namespace {

struct Recording {
    ProfileEnd end = {};
    bool whole = false;
    std::int64_t begin_ns = 0;                                                               // of the recording
    std::int64_t work_begin_ns = std::numeric_limits<std::int64_t>::max(), work_end_ns = 0;  // first and last

    template <class R>
    void look_at(const R& record) {
        if constexpr (std::is_same_v<R, StringRecord>) {
            end.last_string = std::max(end.last_string, record.id);
        } else if constexpr (std::is_same_v<R, Kernel> || std::is_same_v<R, Copy> || std::is_same_v<R, Memset>) {
            if (record.begin_ns > 0 && record.end_ns > 0) {
                work_begin_ns = std::min(work_begin_ns, record.begin_ns);
                work_end_ns = std::max(work_end_ns, record.end_ns);
            }
        }
    }

    bool has(const Counter& sample, CountersOf part) const {
        return part == CountersOf::kRun ? sample.begin_ns >= begin_ns
                                        : sample.begin_ns < work_end_ns && sample.end_ns > work_begin_ns;
    }
};

bool is_running(std::int64_t process) {
    return process > 0 && (kill(static_cast<pid_t>(process), 0) == 0 || errno == EPERM);
}

Recording look_through(const std::filesystem::path& path) {
    ProfileReader reader(path);
    Recording found{.begin_ns = reader.header().begin_ns};
    for (Record record; reader.next(record);) {
        std::visit([&](const auto& r) { found.look_at(r); }, record);
    }
    const FileFaults& faults = reader.faults();
    if (faults.damaged_blocks > 0 || faults.missing_records > 0 || faults.trailing_bytes > 0) {
        fail<FileError>("{}: is damaged, and nothing is added to it", path.string());
    }
    if (!faults.whole && is_running(reader.header().process)) {
        fail<FileError>("{}: process {} still writes it, and nothing is added to it", path.string(),
                        reader.header().process);
    }
    found.end.at_byte = reader.blocks_end();
    found.end.records = reader.records();
    found.whole = faults.whole;
    return found;
}

// Counters and notes; texts have other numbers in the other file.
void copy_counters(ProfileReader& from, const Recording& recording, CountersOf part, ProfileWriter& to) {
    std::unordered_map<StringId, StringId> texts{{0, 0}};
    for (Record record; from.next(record);) {
        if (const auto* text = std::get_if<StringRecord>(&record)) {
            texts[text->id] = to.intern(text->text);
        } else if (const auto* note = std::get_if<Note>(&record)) {
            to.add(Note{texts[note->text]});
        } else if (auto* sample = std::get_if<Counter>(&record); sample != nullptr && recording.has(*sample, part)) {
            sample->name = texts[sample->name];
            to.add(*sample);
        }
    }
}

}  // namespace

void append_counters(const std::filesystem::path& to, const std::filesystem::path& from, CountersOf part) {
    ProfileReader reader(from);
    const Recording recording = look_through(to);
    try {
        ProfileWriter writer(to, recording.end);
        copy_counters(reader, recording, part, writer);
        if (recording.whole) {
            writer.close();
        } else {
            writer.flush();
        }
    } catch (...) {
        ProfileWriter before(to, recording.end);
        if (recording.whole) {
            before.close();
        }
        throw;
    }
}

}  // namespace oomb::profiler
