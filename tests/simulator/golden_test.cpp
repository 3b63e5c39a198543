// What a user sees, compared with the files in tests/golden/. After a change that is meant, write them anew with
//   OOMB_UPDATE_GOLDEN=1 build/cpu/tests/simulator/oomb_simulator_tests --source-file=*golden_test.cpp
// and read the difference before committing it.
#include <doctest/doctest.h>

#include <cstdlib>

#include "runtime/core/text_file.hpp"
#include "tests/simulator/plan_call.hpp"
#include "tests/simulator/simulated_trace.hpp"

namespace oomb::test {

namespace {

void compare_with_golden(const std::string& name, const std::string& text) {
    const std::filesystem::path path = std::filesystem::path(OOMB_SOURCE_DIR "/tests/golden") / name;
    if (std::getenv("OOMB_UPDATE_GOLDEN") != nullptr) {
        write_text_file(path, text);
    }
    CAPTURE(name);
    CHECK(read_text_file(path, 1 << 20) == text);
}

// Exit code, standard output, standard error.
std::string transcript(const std::string& flags, const std::string& model) {
    std::vector<std::string> arguments = words(flags);
    arguments.insert(arguments.end(), {"--model", model_file(model)});
    const PlanCall call = call_plan(arguments);
    std::string out = call.out;
    const std::string root = OOMB_SOURCE_DIR "/";
    for (std::size_t at = out.find(root); at != std::string::npos; at = out.find(root)) {
        out.erase(at, root.size());
    }
    return "$ oomb-plan " + flags + " --model models/" + model + ".json\n" + out + "--- standard error\n" + call.err +
           "--- exit code " + std::to_string(call.code) + "\n";
}

}  // namespace

TEST_CASE("--help") {
    compare_with_golden("oomb-plan-help.txt", call_plan({"--help"}).out);
}

TEST_CASE("a plan that fits") {
    compare_with_golden("oomb-plan-fits.txt", transcript("--context 128K --offload host --keep xo", "qwen2.5-7b"));
}

TEST_CASE("a plan that chooses what is held and kept") {
    compare_with_golden("oomb-plan-auto.txt",
                        transcript("--context 128K --offload host --keep auto --kept-pages auto --held-chunks auto "
                                   "--gpu-memory 24GiB --host-memory 8GiB",
                                   "smollm2-135m"));
}

TEST_CASE("a plan with top-K pages: memory, and a time that is an estimate") {
    compare_with_golden("oomb-plan-topk.txt",
                        transcript("--context 64K --attention topk --top-k 64 --offload host --hbm-pages ring "
                                   "--host-memory 400GiB",
                                   "qwen2.5-7b"));
}

TEST_CASE("a plan that does not fit") {
    compare_with_golden("oomb-plan-too-large.txt", transcript("--context 1M", "qwen2.5-7b"));
}

// Also what fuzzing the replay begins with.
TEST_CASE("a trace") {
    class Microseconds : public simulator::Durations {
      public:
        double seconds(const schedule::Operation& /*operation*/, std::int64_t /*bytes*/, bool /*both*/) override {
            return 1e-6;
        }
    } times;
    schedule::Plan plan = small_traced_plan();
    plan.model.layers = 1;
    plan.asked.context_tokens = 16;
    plan.asked.chunk_tokens = plan.asked.window_tokens = 8;
    plan = schedule::make_plan(plan.model, plan.asked);
    compare_with_golden("trace-tiny.jsonl", trace_text(plan, simulated_records(plan, times)));
}

TEST_CASE("a plan for the CPU, more positions than the model knows") {
    compare_with_golden("oomb-plan-cpu.txt",
                        transcript("--context 10000 --chunk 512 --offload host --hbm-pages ring --device "
                                   "cpu --gpu-memory 4GiB --host-memory 4GiB",
                                   "smollm2-135m"));
}

}  // namespace oomb::test
