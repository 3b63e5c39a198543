#pragma once
// What runs beside the threads of a block: the copy engine and the tensor cores. Of machine.cpp alone.

#include <cstdint>
#include <memory>
#include <random>

namespace oomb::emulation {

// What is under way for one block; the functions below are of the one used last.
struct Multiprocessor;
std::shared_ptr<Multiprocessor> make_multiprocessor();
void use(Multiprocessor& block);

void begin_block(unsigned threads, std::mt19937& random);
void end_block();  // throws Error if something is still under way
unsigned threads_of_block();

// One copy, or the next product of a warpgroup; false if there is nothing to do.
bool do_some_work(std::mt19937& random);

std::uint8_t* at_shared_address(std::uint32_t address);

}  // namespace oomb::emulation
