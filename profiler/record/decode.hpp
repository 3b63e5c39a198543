#pragma once
// CUPTI's activity records as ours. CUPTI appends fields to a record from version to version and keeps those before, so
// each kind is read through the oldest struct that has what we need; a field that only newer versions fill is read only
// from those.

#include <cupti.h>

#include <cstdint>
#include <functional>

#include "profiler/file/profile_writer.hpp"

namespace oomb::profiler {

inline constexpr std::uint32_t kOldestCupti = 120000;  // 12.0: whose records we know how to read

// Where decoded records go. `intern` as ProfileWriter's.
struct RecordSink {
    std::function<void(const Record&)> add;
    std::function<StringId(std::string_view)> intern;
};

class Decoder {
  public:
    // `calls`: those of the runtime and the driver are kept. Throws UnsupportedError for a version before kOldestCupti.
    Decoder(std::uint32_t cupti_version, RecordSink sink, bool calls = false);

    // Markers before are left out from now on: of a program that waits for its window.
    void keep_markers_from(std::int64_t time_ns) { markers_from_ns_ = time_ns; }

    // A buffer as CUPTI completes it. What its iterator refuses is counted as unreadable, in bytes.
    void decode_buffer(std::uint8_t* buffer, std::size_t valid_bytes);
    // One record; of a kind that we do not keep: nothing.
    void decode(const CUpti_Activity& activity);

    std::int64_t unreadable_bytes() const { return unreadable_bytes_; }
    bool saw_device() const { return saw_device_; }  // a device's record

  private:
    void device(const CUpti_Activity& activity);
    void kernel(const CUpti_Activity& activity);
    void copy(const CUpti_Activity& activity);
    void peer_copy(const CUpti_Activity& activity);
    void memset(const CUpti_Activity& activity);
    void memory(const CUpti_Activity& activity);
    void marker(const CUpti_Activity& activity);
    void synchronization(const CUpti_Activity& activity);
    void overhead(const CUpti_Activity& activity);
    void external_correlation(const CUpti_Activity& activity);
    void call(const CUpti_Activity& activity);
    StringId intern(const char* text);

    std::uint32_t version_;
    RecordSink sink_;
    bool calls_;
    std::int64_t markers_from_ns_ = 0;
    std::int64_t unreadable_bytes_ = 0;
    bool saw_device_ = false;
};

// Under this kind the NVTX range of an operation is pushed as CUPTI's external correlation.
inline constexpr CUpti_ExternalCorrelationKind kOperationCorrelation = CUPTI_EXTERNAL_CORRELATION_KIND_CUSTOM0;

}  // namespace oomb::profiler
