#pragma once
// The metrics file: one JSON object per optimizer step and line, flushed, so that it can be followed while it grows.

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>

#include "trainer/run/run_meter.hpp"
#include "trainer/weights/output_file.hpp"

namespace oomb::trainer {

// Names in the file are those of the fields; documented in docs/metrics.md.
struct StepMetrics {
    std::int64_t step = 0;           // from 1
    std::int64_t epoch = 0;          // complete passes over the data before this step's last sequence
    std::int64_t valid_targets = 0;  // of this step
    double loss = 0.0;               // mean over the valid targets, nats
    double grad_norm = 0.0;          // global, before clipping
    double learning_rate = 0.0;
    StepUse use;                                         // seconds, copies, FLOPs, joules
    std::optional<double> peak_flops;                    // of the hardware, where utilisation is asked for
    DeviceReading device;                                // at the step's end
    std::int64_t hbm_bytes = 0, host_bytes = 0;          // highest touched byte of each arena so far
    std::int64_t library_bytes = 0, resident_bytes = 0;  // peaks so far: LibTorch's own, the process's
    std::optional<std::int64_t> driver_bytes;            // peak so far of GPU memory, as its driver counts
};

std::string to_json_line(const StepMetrics& metrics);  // ends with a newline

class MetricsFile {
  public:
    // Throws FileError when the file exists (its lines would be lost or mixed) or can't be made. Of a run that goes on
    // after `steps_before` steps it may exist: lines of later steps, and one that was cut short, are dropped; FileError
    // for what is no metrics file.
    explicit MetricsFile(const std::filesystem::path& path, std::int64_t steps_before = 0);
    void write(const StepMetrics& metrics);  // throws FileError

  private:
    FileCalls calls_;
    OutputFile file_;
};

}  // namespace oomb::trainer
