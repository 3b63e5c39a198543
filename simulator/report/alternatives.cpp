#include "simulator/report/alternatives.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "runtime/core/error.hpp"
#include "runtime/core/units.hpp"
#include "runtime/schedule/placement.hpp"
#include "simulator/search/search.hpp"

namespace oomb::simulator {
namespace {

struct Change {
    std::string text;
    RunConfiguration run;
    bool costs_only_time = true;
};

std::string tokens_flag(std::string_view flag, std::int64_t tokens) {
    return fmt::format("{} {}", flag, tokens_as_typed(tokens));
}

bool keeps(const RunConfiguration& run) {
    return run.keep != Keep::kNone && run.keep != Keep::kAuto;
}

bool holds(const RunConfiguration& run) {
    return run.held_chunks.mode == Amount::Mode::kAll || run.held_chunks.count > 0;
}

// Chunks may have been held by `--keep all`, which goes with no other number of them.
std::string held_flag(const RunConfiguration& run, std::string_view amount) {
    const bool by_either = run.keep == Keep::kNone && run.held_chunks.mode == Amount::Mode::kAll;
    return fmt::format("{}--held-chunks {}", by_either ? "--keep none " : "", amount);
}

// Pages to keep are counted only where something is kept.
std::string keep_nothing_flag(const RunConfiguration& run) {
    return run.kept_pages.mode == Amount::Mode::kAll ? "--keep none" : "--keep none --kept-pages all";
}

// What says how an optimizer stores its states goes with it.
std::string no_optimizer_flag(const RunConfiguration& run) {
    return fmt::format("{}{}--no-optimizer",
                       run.resident_shards.mode == Amount::Mode::kAuto ? "" : "--optimizer-states auto ",
                       run.split_masters ? "--master-weights fp32 " : "");
}

std::string join(const std::string& flags, const std::string& more) {
    return flags.empty() ? more : flags + " " + more;
}

// Largest multiple of the page that is at most tokens / divisor; 0 where that is less than a page.
std::int64_t part_of(std::int64_t tokens, std::int64_t divisor, std::int64_t page_tokens) {
    return tokens / divisor / page_tokens * page_tokens;
}

class Changes {
  public:
    explicit Changes(const RunConfiguration& run)
        : run_(run),
          // A chunk or window longer than the sequence is as good as one of its length.
          sequence_(schedule::divide_up(run.context_tokens, run.page_tokens) * run.page_tokens) {}

    std::vector<Change> of_places() const {
        std::vector<Change> changes;
        const bool offloads = run_.offload == Offload::kHost;
        add(changes, !offloads, "--offload host", [](auto& run) { run.offload = Offload::kHost; });
        add(changes, offloads && run_.hbm_pages.mode != HbmPages::Mode::kAuto, "--hbm-pages auto",
            [](auto& run) { run.hbm_pages = {}; });
        add(changes, offloads && run_.hbm_pages.mode != HbmPages::Mode::kRing, "--hbm-pages ring", [](auto& run) {
            run.hbm_pages = {HbmPages::Mode::kRing, 0};
        });
        add(changes, holds(run_), held_flag(run_, "auto"), [](auto& run) {
            run.held_chunks = {Amount::Mode::kAuto, 0};
        });
        add(changes, holds(run_), held_flag(run_, "0"), [](auto& run) { run.held_chunks = {}; });
        add(changes, run_.optimizer && run_.resident_shards.mode != Amount::Mode::kAuto, "--optimizer-states auto",
            [](auto& run) {
                run.resident_shards = {Amount::Mode::kAuto, 0};
            });
        add(changes, keeps(run_) && run_.kept_pages.mode != Amount::Mode::kAuto, "--kept-pages auto", [](auto& run) {
            run.kept_pages = {Amount::Mode::kAuto, 0};
        });
        add(changes, keeps(run_), keep_nothing_flag(run_), [](auto& run) { run.keep = Keep::kNone; });
        add(changes, offloads, "--offload none", [](auto& run) {
            run.offload = Offload::kNone;
            run.hbm_pages = {};
        });
        return changes;
    }

    std::vector<Change> of_cuts(std::initializer_list<std::int64_t> divisors) const {
        std::vector<Change> changes;
        const std::int64_t chunk = std::min(run_.chunk_tokens, sequence_);
        add_parts(changes, "--logit-tile", &RunConfiguration::logit_tile_tokens,
                  std::min(run_.logit_tile_tokens, run_.context_tokens), 1, divisors);
        add_parts(changes, "--window", &RunConfiguration::window_tokens, std::min(run_.window_tokens, sequence_),
                  run_.page_tokens, divisors);
        add_parts(changes, "--chunk", &RunConfiguration::chunk_tokens, chunk, run_.page_tokens, divisors);
        return changes;
    }

    std::vector<Change> of_types() const {
        std::vector<Change> changes;
        add(changes, run_.device == DeviceKind::kCuda && run_.compute != DType::kBF16, "--dtype bf16", [](auto& run) {
            run.compute = DType::kBF16;
            run.accumulator = DType::kF32;
        });
        add(changes, run_.compute == DType::kF64, "--dtype fp32",
            [](auto& run) { run.compute = run.accumulator = DType::kF32; });
        const bool narrow = run_.compute == DType::kBF16;
        add(changes, narrow && run_.optimizer && !run_.split_masters, "--master-weights remainder",
            [](auto& run) { run.split_masters = true; });
        add(changes, narrow && !run_.bf16_gradients && !run_.forward_only, "--gradient-dtype bf16",
            [](auto& run) { run.bf16_gradients = true; });
        return beyond_time(std::move(changes));
    }

    Change of_context(std::int64_t tokens) const {
        Change change{tokens_flag("--context", tokens), run_, false};
        change.run.context_tokens = tokens;
        return change;
    }

    std::vector<Change> of_optimizer() const {
        std::vector<Change> changes;
        add(changes, run_.optimizer, no_optimizer_flag(run_), [](auto& run) { run.optimizer = false; });
        return beyond_time(std::move(changes));
    }

  private:
    static std::vector<Change> beyond_time(std::vector<Change> changes) {
        for (Change& change : changes) {
            change.costs_only_time = false;
        }
        return changes;
    }

    template <class Edit>
    void add(std::vector<Change>& changes, bool applies, std::string text, const Edit& edit) const {
        if (applies) {
            changes.push_back({std::move(text), run_});
            edit(changes.back().run);
        }
    }

    void add_parts(std::vector<Change>& changes, std::string_view flag, std::int64_t RunConfiguration::*member,
                   std::int64_t tokens, std::int64_t unit, std::initializer_list<std::int64_t> divisors) const {
        for (const std::int64_t divisor : divisors) {
            const std::int64_t part = part_of(tokens, divisor, unit);
            add(changes, part > 0 && part < run_.*member, tokens_flag(flag, part),
                [&](auto& run) { run.*member = part; });
        }
    }

    RunConfiguration run_;
    std::int64_t sequence_;
};

// Empty where the changed run is not allowed (more chunks than there may be, say).
std::optional<Alternative> evaluate(const Target& target, const Change& change) {
    try {
        const schedule::Plan plan = plan_for_time(target.model, change.run, target.profile);
        return Alternative{change.text,
                           change.run,
                           {plan.peak_bytes(Tier::kHbm), plan.peak_bytes(Tier::kHost)},
                           excesses_of(plan, target.limits),
                           change.costs_only_time};
    } catch (const UsageError&) {
        return std::nullopt;
    }
}

void append(std::vector<Alternative>& list, const Target& target, const std::vector<Change>& changes) {
    for (const Change& change : changes) {
        if (std::optional<Alternative> alternative = evaluate(target, change)) {
            list.push_back(std::move(*alternative));
        }
    }
}

bool fits(const Target& target, const RunConfiguration& run) {
    try {
        return excesses_of(schedule::make_plan(target.model, run), target.limits).empty();
    } catch (const UsageError&) {  // more chunks or windows than there may be
        return false;
    }
}

// The longest context that fits, in whole chunks; within a chunk by halving, and if nothing fits a page.
std::optional<Alternative> shorter_context(const Target& target, const Change& from) {
    const Changes changes(from.run);
    const auto of_tokens_fit = [&](std::int64_t tokens) { return fits(target, changes.of_context(tokens).run); };
    const std::int64_t chunk = from.run.chunk_tokens;
    std::int64_t tokens = chunk * schedule::most((from.run.context_tokens - 1) / chunk,
                                                 [&](std::int64_t chunks) { return of_tokens_fit(chunks * chunk); });
    if (tokens == 0) {
        tokens = std::min(chunk, from.run.context_tokens) / 2;
        while (tokens / 2 >= from.run.page_tokens && !of_tokens_fit(tokens)) {
            tokens /= 2;
        }
    }
    if (tokens < std::min(from.run.page_tokens, from.run.context_tokens) || tokens == 0) {
        return std::nullopt;
    }
    const Change change = changes.of_context(tokens);
    return evaluate(target, {join(from.text, change.text), change.run, false});
}

// Everything that costs only time, at once.
Change all_savings(const RunConfiguration& run) {
    Change all{"", run};
    const Changes changes(run);
    if (run.offload == Offload::kNone) {
        all.run.offload = Offload::kHost;
        all.text = "--offload host";
    }
    if (holds(run)) {
        all.run.held_chunks = {};
        all.text = join(all.text, held_flag(run, "0"));
    }
    if (run.optimizer && run.resident_shards.mode != Amount::Mode::kAuto) {
        all.run.resident_shards = {Amount::Mode::kAuto, 0};
        all.text = join(all.text, "--optimizer-states auto");
    }
    if (keeps(run)) {
        all.run.keep = Keep::kNone;
        all.text = join(all.text, keep_nothing_flag(run));
    }
    for (const Change& cut : changes.of_cuts({4})) {
        all.run.logit_tile_tokens = std::min(all.run.logit_tile_tokens, cut.run.logit_tile_tokens);
        all.run.window_tokens = std::min(all.run.window_tokens, cut.run.window_tokens);
        all.run.chunk_tokens = std::min(all.run.chunk_tokens, cut.run.chunk_tokens);
        all.text = join(all.text, cut.text);
    }
    return all;
}

}  // namespace

std::vector<Alternative> alternatives(const Target& target, const RunConfiguration& run) {
    const Changes changes(run);
    std::vector<Alternative> list;
    append(list, target, changes.of_places());
    append(list, target, changes.of_cuts({2, 4}));
    append(list, target, changes.of_types());
    if (std::optional<Alternative> shorter = shorter_context(target, {"", run})) {
        list.push_back(std::move(*shorter));
    }
    append(list, target, changes.of_optimizer());
    return list;
}

std::vector<Alternative> combinations(const Target& target, const RunConfiguration& run) {
    std::vector<Alternative> list;
    const Change all = all_savings(run);
    if (all.text.empty()) {
        return list;
    }
    append(list, target, {all});
    if (!list.empty() && !list.back().fits()) {
        if (std::optional<Alternative> shorter = shorter_context(target, all)) {
            list.push_back(std::move(*shorter));
        }
    }
    return list;
}

}  // namespace oomb::simulator
