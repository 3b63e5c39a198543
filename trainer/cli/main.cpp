#include "trainer/cli/run_train.hpp"

int main(int argc, char** argv) {
    return oomb::trainer::run_train(argc, argv);
}
