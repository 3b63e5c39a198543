#pragma once
// CUPTI's records made by hand, and what a decoder makes of them.

#include <cstring>
#include <string>
#include <vector>

#include "profiler/record/decode.hpp"

namespace oomb::profiler {

// Holds what a decoder gives, and resolves its names.
struct Collector {
    std::vector<Record> records;
    std::vector<std::string> names{""};

    RecordSink sink() {
        return {[this](const Record& record) { records.push_back(record); },
                [this](std::string_view text) {
                    names.emplace_back(text);
                    return static_cast<StringId>(names.size() - 1);
                }};
    }
};

template <class T>
T zeroed(CUpti_ActivityKind kind) {
    T record;
    std::memset(&record, 0, sizeof record);
    record.kind = kind;
    return record;
}

// A buffer as CUPTI fills it: records of the current version behind one another.
class Buffer {
  public:
    template <class T>
    Buffer& add(const T& record) {
        std::memcpy(bytes_.data() + size_, &record, sizeof record);
        size_ += sizeof record;
        return *this;
    }
    std::uint8_t* data() { return bytes_.data(); }
    std::size_t size() const { return size_; }

  private:
    std::vector<std::uint8_t> bytes_ = std::vector<std::uint8_t>(std::size_t{1} << 14);
    std::size_t size_ = 0;
};

}  // namespace oomb::profiler
