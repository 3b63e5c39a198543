#pragma once
// What a device's driver measures, at one moment.

#include <cstdint>
#include <optional>
#include <string>

namespace oomb {

// Each is absent where the driver does not say.
struct DeviceReading {
    std::optional<double> joules;           // drawn since the driver was loaded: only differences mean something
    std::optional<double> watts;            // now
    std::optional<std::int64_t> clock_mhz;  // of the streaming multiprocessors
    std::optional<std::int64_t> celsius;
    std::optional<std::int64_t> process_bytes;  // device memory of this process, context and libraries included
    std::string missing;                        // where nothing at all can be read: one line that says why
};

}  // namespace oomb
