#pragma once
// Energy, power, clock, temperature and memory of a GPU as its driver counts them, by NVML. The library is part of the
// driver and is looked for at run time; nothing is linked.

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "runtime/core/device_reading.hpp"

namespace oomb::device {

class GpuMeter {
  public:
    // `pci_bus` as in DeviceInfo and DeviceProbe. Never throws: without NVML, or without this GPU in it, every reading
    // is empty, but for why. Made before the CUDA context (probe_device), the context's memory counts as
    // this process's even where the driver does not list processes.
    explicit GpuMeter(const std::string& pci_bus, const std::string& library = "libnvidia-ml.so.1");
    ~GpuMeter();
    GpuMeter(const GpuMeter&) = delete;
    GpuMeter& operator=(const GpuMeter&) = delete;

    // Values that the driver does not give are absent. process_bytes is what the driver lists for this process id; in a
    // container the ids are others, and what the whole GPU uses more than when the meter was made stands for it. Takes
    // some tens of microseconds: for steps, not for operations. One thread at a time.
    DeviceReading read() const;
    // Largest process_bytes of all readings so far.
    std::optional<std::int64_t> peak_process_bytes() const { return peak_process_bytes_; }

  private:
    struct Nvml;

    std::string open(const std::string& pci_bus, const std::string& library);
    std::optional<std::int64_t> process_bytes() const;

    std::unique_ptr<Nvml> nvml_;  // null: missing
    std::string missing_;
    std::int64_t used_at_start_bytes_ = 0;
    mutable std::optional<std::int64_t> peak_process_bytes_;
};

}  // namespace oomb::device
