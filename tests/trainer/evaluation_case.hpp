#pragma once
// Evaluations on the CPU backend, checked for hazards, and what was seen of them.

#include "tests/trainer/step_case.hpp"

namespace oomb::testing {

inline RunConfiguration evaluation_of(RunConfiguration run) {
    run.forward_only = true;
    run.optimizer = false;
    return run;
}

inline RunConfiguration with_pages(RunConfiguration run, AttentionMode attention, std::int64_t pages,
                                   std::int64_t window_pages) {
    run.attention = attention;
    run.top_k = pages;
    run.window_tokens = window_pages * run.page_tokens;
    return run;
}

inline RunConfiguration offloaded(RunConfiguration run) {
    run.offload = Offload::kHost;
    run.hbm_pages.mode = HbmPages::Mode::kRing;
    return run;
}

struct Evaluated {
    std::vector<trainer::EvaluationResult> results;
    PageListsByLayer lists;  // of the last sequence, as the issuer got them
    std::int64_t touched_bytes[kTiers] = {0, 0};
    std::int64_t most_frames[kTiers][kPageClasses] = {};
};

template <class T>
Evaluated evaluate(const schedule::Plan& plan, const std::vector<double>& weights,
                   const std::vector<TestSequence>& sequences, trainer::CpuBackendOptions options = {}) {
    options.checked = true;
    trainer::CpuBackend<T> backend(plan, options);
    set_weights(backend, weights);
    trainer::Executor executor(plan, backend);
    Evaluated found;
    executor.on_lists([&](const trainer::GroupLists& group) {
        found.lists[group.layer].insert(found.lists[group.layer].end(), group.lists.begin(), group.lists.end());
    });
    for (const TestSequence& sequence : sequences) {
        found.lists.assign(plan.model.layers, {});
        found.results.push_back(executor.evaluate(sequence.view()));
    }
    for (int tier = 0; tier < kTiers; ++tier) {
        found.touched_bytes[tier] = backend.touched_bytes(static_cast<Tier>(tier));
        for (int page_class = 0; page_class < kPageClasses; ++page_class) {
            const auto& residency = executor.issuer().residency(static_cast<PageClass>(page_class));
            found.most_frames[tier][page_class] = residency.pool(static_cast<Tier>(tier)).most_in_use();
            CHECK(residency.alive_pages() == 0);
        }
    }
    CHECK(executor.issuer().table_bytes() == plan.page_table_bytes);
    return found;
}

}  // namespace oomb::testing
