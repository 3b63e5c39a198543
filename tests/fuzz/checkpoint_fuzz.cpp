// checkpoint.json: what is accepted comes back when it is written.
#include "tests/fuzz/target.hpp"
#include "trainer/checkpoint/checkpoint_facts.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    using namespace oomb::trainer;
    return oomb::fuzz::refuses_or_accepts([&] {
        const CheckpointFacts facts = read_checkpoint_facts(oomb::fuzz::as_file(data, size, ".json"));
        const std::string text = to_json(facts);
        const auto path = oomb::fuzz::as_file(reinterpret_cast<const std::uint8_t*>(text.data()), text.size(), ".json");
        if (to_json(read_checkpoint_facts(path)) != text || !changed_settings(facts, facts.settings).empty()) {
            __builtin_trap();
        }
    });
}
