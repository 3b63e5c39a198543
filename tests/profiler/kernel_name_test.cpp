#include "profiler/export/kernel_name.hpp"

#include <doctest/doctest.h>

namespace oomb::profiler {

TEST_CASE("the name of a kernel without spaces, templates and parameters") {
    CHECK(short_kernel_name("add(float*)") == "add");
    CHECK(short_kernel_name("void ns::inner::kernel<float, (int)4>(float*, std::vector<int>)") == "kernel");
    CHECK(short_kernel_name("(anonymous namespace)::fill(int*)") == "fill");
    CHECK(short_kernel_name("void a::(anonymous namespace)::copy<a::(anonymous namespace)::T>(int)") == "copy");
    CHECK(short_kernel_name("std::pair<int, a::b>::first_type pick<int>(int)") == "pick");
    CHECK(short_kernel_name("void less<((1) > (2)), (ns::Kind)3>(void (*)(int))") == "less");
    CHECK(short_kernel_name("void shift<((1) < (2))>(int) [clone .kd]") == "shift");
}

TEST_CASE("what is no function with its parameters stays as it is") {
    for (const char* text :
         {"", "plain_name", "sm90 kernel", "_Z3add", "(name not in the file)", "(", "a::(", ">>)", "a<b"}) {
        CHECK(short_kernel_name(text) == text);
    }
}

}  // namespace oomb::profiler
