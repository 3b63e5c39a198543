// config.json of a model, and the plan of a short run of what is accepted: sizes near 2^63 must be refused, not wrap.
#include "runtime/core/model_shape.hpp"
#include "runtime/schedule/plan.hpp"
#include "tests/fuzz/target.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    return oomb::fuzz::refuses_or_accepts([&] {
        const oomb::ModelShape model = oomb::parse_model_shape(oomb::fuzz::text_of(data, size), "config.json");
        oomb::RunConfiguration run;
        run.context_tokens = 1000;
        run.chunk_tokens = 256;
        run.page_tokens = 128;
        run.window_tokens = 512;
        oomb::schedule::make_plan(model, run);
    });
}
