// A CUDA program that knows nothing of a recorder: profiled_program
// overlap|batches|threads|graphs|marks|pushed|started|numbered|seconds|copies|tiny|killed|nothing. Prints what it did
// as JSON.

#include <cstdio>
#include <string_view>

#include "tests/profiler/gpu_work.hpp"

int main(int argc, char** argv) {
    using namespace oomb::profiler;
    const std::string_view mode = argc > 1 ? argv[1] : "";
    KnownWork work;
    if (mode == "overlap") {
        work = do_overlapping();
    } else if (mode == "batches") {
        work = do_batches();
    } else if (mode == "threads") {
        work = do_threads();
    } else if (mode == "graphs") {
        work = do_graphs();
    } else if (mode == "marks") {
        work = do_marked(5);
    } else if (mode == "pushed") {
        work = do_steps(6, StepRanges::kPushed);
    } else if (mode == "started") {
        work = do_steps(6, StepRanges::kStarted);
    } else if (mode == "numbered") {
        work = do_steps(6, StepRanges::kNumbered);
    } else if (mode == "seconds") {
        work = do_for_seconds(4);
    } else if (mode == "copies") {
        work = do_copies(3);
    } else if (mode == "tiny") {
        work = do_tiny(200'000);
    } else if (mode == "killed") {
        work_until_killed();
    } else if (mode != "nothing") {
        return 2;
    }
    std::printf("%s\n", as_json(work).c_str());
    return 0;
}
