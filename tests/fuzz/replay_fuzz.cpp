#include "runtime/trace/trace.hpp"
#include "simulator/cli/recorded_plan.hpp"
#include "simulator/replay/recording.hpp"
#include "tests/fuzz/target.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    return oomb::fuzz::refuses_or_accepts([&] {
        const auto path = oomb::fuzz::as_file(data, size, ".jsonl");
        const oomb::trace::TraceHeader header = oomb::trace::TraceReader(path).header();
        const auto recorded = oomb::simulator::recorded_plan(oomb::JsonNode(header.plan, "plan"));
        oomb::simulator::read_recording(path, recorded.plan, std::nullopt);
    });
}
