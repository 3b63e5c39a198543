#include <iostream>

#include "profiler/cli/run_profile.hpp"

int main(int argc, char** argv) {
    return oomb::profiler::run_profile(argc, argv, std::cout, std::cerr);
}
