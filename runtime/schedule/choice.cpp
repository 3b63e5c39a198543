#include "runtime/schedule/choice.hpp"

#include <optional>

#include "runtime/schedule/flops.hpp"

namespace oomb::schedule {
namespace {

constexpr std::int64_t kMostTried = 32;  // numbers of held chunks

class Choice {
  public:
    Choice(const ModelShape& model, const RunConfiguration& asked)
        : model_(model), asked_(asked), placement_(model, asked) {}

    Plan make() {
        if (asked_.keep != Keep::kAuto && !decides_held()) {
            return placement_.plan_of(asked_);
        }
        for (const Keep keep : keeps()) {
            for (const std::int64_t held : numbers_of_held(keep)) {
                consider(placement_.plan_of(with(keep, held)));
            }
        }
        return best_ ? std::move(*best_) : placement_.plan_of(with(keeps().front(), 0));
    }

  private:
    bool decides_held() const { return asked_.held_chunks.mode == Amount::Mode::kAuto; }

    RunConfiguration with(Keep keep, std::int64_t held) const {
        RunConfiguration run = asked_;
        run.keep = keep;
        if (decides_held()) {
            run.held_chunks = {Amount::Mode::kCount, held};
        }
        return run;
    }

    std::vector<Keep> keeps() const {
        if (asked_.keep != Keep::kAuto) {
            return {asked_.keep};
        }
        const bool may_hold = decides_held() || asked_.held_chunks.of(1) == 0;
        return may_hold ? std::vector{Keep::kNone, Keep::kInput, Keep::kOutput, Keep::kInputAndOutput}
                        : std::vector{Keep::kNone, Keep::kOutput};
    }

    // All that fit when nothing is kept, or that many of them, evenly spread.
    std::vector<std::int64_t> numbers_of_held(Keep keep) {
        if (!decides_held() || keeps_input(keep)) {
            return {0};
        }
        if (most_held_ < 0) {
            const std::int64_t chunks = divide_up(asked_.context_tokens, asked_.chunk_tokens);
            most_held_ = most(chunks, [&](std::int64_t held) {
                return shortfalls(placement_.plan_of(with(Keep::kNone, held))).empty();
            });
        }
        std::vector<std::int64_t> numbers;
        const std::int64_t steps = std::min(most_held_, kMostTried);
        for (std::int64_t i = 0; i <= steps; ++i) {
            numbers.push_back(steps == 0 ? 0 : divide_up(i * most_held_, steps));
        }
        return numbers;
    }

    void consider(Plan plan) {
        if (!shortfalls(plan).empty()) {
            return;
        }
        const double flops = step_flops(StepShape(model_, plan.run));
        const std::int64_t bytes = plan.peak_bytes(Tier::kHbm) + plan.peak_bytes(Tier::kHost);
        if (!best_ || flops < least_flops_ || (flops == least_flops_ && bytes < least_bytes_)) {
            best_ = std::move(plan);
            least_flops_ = flops;
            least_bytes_ = bytes;
        }
    }

    const ModelShape& model_;
    const RunConfiguration& asked_;
    Placement placement_;
    std::int64_t most_held_ = -1;
    std::optional<Plan> best_;
    double least_flops_ = 0;
    std::int64_t least_bytes_ = 0;
};

}  // namespace

Plan choose_plan(const ModelShape& model, const RunConfiguration& asked) {
    return Choice(model, asked).make();
}

}  // namespace oomb::schedule
