#include "runtime/flags/contradictions.hpp"

#include "runtime/core/error.hpp"

namespace oomb {
namespace {

// The states of an optimizer that does not run.
void refuse_states(std::string_view flag, const std::string& found, const std::string& fallback) {
    if (found != fallback) {
        fail<UsageError>(
            "{} {} with --no-optimizer: without AdamW there is nothing of it to store; leave one of the two out", flag,
            found);
    }
}

}  // namespace

void refuse_contradictions(const RunFlags& flags) {
    const RunFlags defaults;
    if (flags.no_optimizer) {
        refuse_states("--master-weights", flags.master_weights, defaults.master_weights);
        refuse_states("--optimizer-states", flags.optimizer_states, defaults.optimizer_states);
    }
    if (flags.offload == "none" && flags.gradient_pages != defaults.gradient_pages) {
        fail<UsageError>(
            "--gradient-pages {} with --offload none: no gradient page is in host memory; take --offload host, or "
            "leave --gradient-pages out",
            flags.gradient_pages);
    }
    if (flags.keep == "none" && !flags.keep_is_free && flags.kept_pages != defaults.kept_pages) {
        fail<UsageError>(
            "--kept-pages {} with --keep none: nothing is kept, so there are no pages to count; take --keep x, o, xo "
            "or auto, or leave --kept-pages out",
            flags.kept_pages);
    }
}

}  // namespace oomb
