#pragma once
// Independent pieces of work on all cores.

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <exception>
#include <thread>
#include <vector>

namespace oomb::simulator {

// Calls work(i) for 0 <= i < count, on as many threads as there are cores; results do not depend on how many those are
// where the calls share nothing. Of several exceptions that of the lowest i is thrown, when all threads have ended.
template <class Work>
void for_each_in_parallel(std::size_t count, const Work& work) {
    std::vector<std::exception_ptr> errors(count);
    std::atomic<std::size_t> next = 0;
    const auto run = [&] {
        for (std::size_t i = next++; i < count; i = next++) {
            try {
                work(i);
            } catch (...) {
                errors[i] = std::current_exception();
            }
        }
    };
    std::vector<std::jthread> others(std::min<std::size_t>(count, std::max(1U, std::thread::hardware_concurrency())) -
                                     (count > 0 ? 1 : 0));
    for (std::jthread& other : others) {
        other = std::jthread(run);
    }
    run();
    others.clear();
    for (const std::exception_ptr& error : errors) {
        if (error) {
            std::rethrow_exception(error);
        }
    }
}

}  // namespace oomb::simulator
