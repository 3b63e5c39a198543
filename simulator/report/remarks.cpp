#include "simulator/report/remarks.hpp"

#include <fmt/format.h>

#include "runtime/core/units.hpp"
#include "simulator/report/limits.hpp"

namespace oomb::simulator {

namespace {

bool slides(const schedule::StepShape& step) {
    bool any = false;
    for (std::int64_t layer = 0; layer < step.model().layers; ++layer) {
        any = any || step.sliding_window(layer) > 0;
    }
    return any;
}

}  // namespace

std::vector<std::string> remarks_on(const schedule::Plan& plan) {
    const RunConfiguration& asked = plan.asked;
    const schedule::StepShape step(plan.model, plan.run);
    const std::string_view hbm = tier_title(plan.run.device, Tier::kHbm);
    std::vector<std::string> remarks;
    const auto clamped = [&](std::string_view flag, std::int64_t count, std::int64_t all, const std::string& meaning) {
        if (count > all) {
            remarks.push_back(fmt::format("{} {}: there are {} {}", flag, count, format_count(all), meaning));
        }
    };
    if (asked.hbm_pages.mode == HbmPages::Mode::kCount) {
        clamped("--hbm-pages", asked.hbm_pages.count, step.total_pages(),
                fmt::format("K/V pages, all stay in {}", hbm));
    }
    if (asked.kept_pages.mode == Amount::Mode::kCount && plan.run.keep != Keep::kNone) {
        clamped("--kept-pages", asked.kept_pages.count, step.keepable_chunks() * plan.model.layers,
                "pages to keep, all are kept");
    }
    if (asked.held_chunks.mode == Amount::Mode::kCount) {
        clamped("--held-chunks", asked.held_chunks.count, step.chunks(), "chunks, all are held");
    }
    if (has_page_lists(asked.attention)) {
        clamped("--top-k", asked.top_k, (step.chunks() - 1) * step.pages_per_chunk(),
                "pages in the history, all are read as with --attention dense");
    }
    if (asked.attention == AttentionMode::kLocal) {
        clamped("--local-window", asked.local_window, asked.context_tokens - 1,
                "tokens before the last one, all are read as with --attention dense");
    }
    if (slides(step) && plan.run.device == DeviceKind::kCuda && !step.own_kernels()) {
        remarks.emplace_back(
            "sliding windows with --device cuda: attention that they mask runs in plain kernels, many times slower "
            "than "
            "predicted");
    }
    return remarks;
}

}  // namespace oomb::simulator
