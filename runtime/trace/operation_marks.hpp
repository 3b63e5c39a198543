#pragma once
// How a backend's NVTX ranges say which operation or step they are. The trainer makes them, whoever records a run hears
// them.

#include <cstdint>

namespace oomb::trace {

inline constexpr const char* kMarkDomain = "oomb";
// Category of a range whose payload (an unsigned 64-bit number) is schedule::pack of an operation.
inline constexpr std::uint32_t kMarkCategory = 0x4F4F4D42;  // "OOMB"
// Category of a range whose payload (the same) is the number of an optimizer step, from 1.
inline constexpr std::uint32_t kStepCategory = 0x4F4F4D53;  // "OOMS"

}  // namespace oomb::trace
