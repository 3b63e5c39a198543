#pragma once
// The trace of a run, written while it runs (docs/trace-format.md, runtime/trace/trace.hpp).

#include <cstdint>
#include <filesystem>
#include <mutex>
#include <string>

#include "runtime/schedule/plan.hpp"
#include "runtime/trace/trace.hpp"
#include "trainer/executor/backend.hpp"
#include "trainer/executor/list_tap.hpp"
#include "trainer/weights/output_file.hpp"

namespace oomb::trainer {

// Holds at most kBuffer_bytes of lines; what a killed run leaves is readable up to the last flush.
class TraceFile {
  public:
    // Throws FileError when the file exists (its lines would be lost or mixed) or can't be made.
    explicit TraceFile(const std::filesystem::path& path);
    TraceFile(const TraceFile&) = delete;
    TraceFile& operator=(const TraceFile&) = delete;
    ~TraceFile();  // flushes if it can

    // Once, before everything else.
    void begin(const schedule::Plan& plan, const std::string& device);
    void begin_step(std::int64_t step);
    // From any thread. Throw FileError, as all of these.
    void write(const OperationRecord& record);
    void write(const GroupLists& lists);
    void flush();

  private:
    static constexpr std::size_t kBuffer_bytes = std::size_t{1} << 20;

    void write_out();

    std::mutex mutex_;  // records come from the threads that run operations, lists from the one that issues them
    FileCalls calls_;
    OutputFile file_;
    std::string lines_;
};

}  // namespace oomb::trainer
