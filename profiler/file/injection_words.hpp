#pragma once
// What `oomb-profile run` tells the recorder in another process, through its environment.

namespace oomb::profiler {

inline constexpr const char* kOutWord = "OOMB_PROFILE_OUT";                // path of the profile
inline constexpr const char* kOperationsWord = "OOMB_PROFILE_OPERATIONS";  // "1": calls are attributed to operations

}  // namespace oomb::profiler
