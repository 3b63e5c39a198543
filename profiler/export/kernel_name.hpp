#pragma once

#include <string>
#include <string_view>

namespace oomb::profiler {

// The name of a function alone, which nsys calls its short name:
// "void ns::kernel<float, (int)4>(float*, int)" -> "kernel". A text that is no function with its parameters
// stays as it is.
std::string short_kernel_name(std::string_view demangled);

}  // namespace oomb::profiler
