#include <iostream>

#include "simulator/cli/run_plan.hpp"

int main(int argc, char** argv) {
    return oomb::simulator::run_plan(argc, argv, std::cout, std::cerr);
}
