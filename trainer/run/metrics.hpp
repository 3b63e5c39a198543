#pragma once
// The metrics file: one JSON object per optimizer step and line, flushed, so that it can be followed while it grows.

#include <array>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>

#include "runtime/schedule/operation.hpp"
#include "trainer/weights/output_file.hpp"

namespace oomb::trainer {

// Names in the file are those of the fields; documented in docs/metrics.md.
struct StepMetrics {
    std::int64_t step = 0;           // from 1
    std::int64_t epoch = 0;          // complete passes over the data before this step's last sequence
    std::int64_t tokens = 0;         // of this step
    std::int64_t valid_targets = 0;  // of this step
    double loss = 0.0;               // mean over the valid targets, nats
    double grad_norm = 0.0;          // global, before clipping
    double learning_rate = 0.0;
    double tokens_per_second = 0.0;
    double seconds = 0.0;                                   // of the whole step
    std::array<double, schedule::kPhases> phase_seconds{};  // compute per phase
    std::int64_t hbm_bytes = 0, host_bytes = 0;             // highest touched byte of each arena so far
    std::int64_t library_bytes = 0, resident_bytes = 0;     // peaks so far: LibTorch's own, the process's
};

std::string to_json_line(const StepMetrics& metrics);  // ends with a newline

class MetricsFile {
  public:
    // Throws FileError when the file exists (its lines would be lost or mixed) or can't be made.
    explicit MetricsFile(const std::filesystem::path& path);
    void write(const StepMetrics& metrics);  // throws FileError

  private:
    FileCalls calls_;
    OutputFile file_;
};

}  // namespace oomb::trainer
