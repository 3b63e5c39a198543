#include "runtime/schedule/frame_counts.hpp"

#include "runtime/schedule/key_parts.hpp"

namespace oomb::schedule {
namespace {

// Gradient pages that exist, of one step. A chunk's backward touches the pages of its history that it sees and its own,
// and then frees its own. What chunk c sees of the pages before it contains what later chunks have left of them, for
// sliding windows move with the chunk and sinks stay. So of a layer that is done with chunk c there are the pages that
// c sees, and of one that is not those that c + 1 sees.
class GradientPages {
  public:
    GradientPages(const StepShape& step, std::int64_t resident)
        : step_(step), in_hbm_(resident / step.model().layers), one_more_(resident % step.model().layers) {}

    // Most that exist at once: with the last chunk's own in the lowest layer, which is done last, or with those of the
    // chunk before, which may be longer, in the highest.
    std::int64_t most() const {
        const std::int64_t last = step_.chunks() - 1, layers = step_.model().layers;
        std::int64_t seen = 0;
        for (const auto& [first, count] : layers_alike(step_)) {
            seen += count * KeyParts(step_, last, first).history_pages();
        }
        const std::int64_t with_last = seen + step_.pages_of(last);
        if (last == 0) {
            return with_last;
        }
        const std::int64_t of_highest = KeyParts(step_, last, layers - 1).history_pages();
        const std::int64_t before = KeyParts(step_, last - 1, layers - 1).history_pages();
        return std::max(with_last, seen - of_highest + before + step_.pages_per_chunk());
    }

    // Most with a copy on the host: those whose home is there, from the end of the chunk that touched them first on.
    std::int64_t most_on_host() const {
        const std::int64_t last = step_.chunks() - 1, end = step_.first_page(last);
        const std::vector<LayersAlike> groups = layers_alike(step_);
        std::int64_t seen = 0;
        for (const auto& [first, count] : groups) {
            const KeyParts of_last(step_, last, first);
            for (std::int64_t layer = first; layer < first + count; ++layer) {
                seen += on_host(of_last, layer, 0, end);
            }
        }
        std::int64_t most = seen;
        for (auto group = groups.rbegin(); last > 0 && group != groups.rend(); ++group) {
            const KeyParts of_last(step_, last, group->first), before(step_, last - 1, group->first);
            const std::int64_t begin = step_.first_page(last - 1);
            for (std::int64_t layer = group->first + group->count - 1; layer >= group->first; --layer) {
                // The chunk before the last works on this layer: its own pages, touched by the last one, are there
                // still.
                const std::int64_t own = on_host(of_last, layer, begin, end);
                seen += on_host(before, layer, 0, begin) + own - on_host(of_last, layer, 0, end);
                most = std::max(most, seen);
                seen -= own;
            }
        }
        return most;
    }

  private:
    // Pages of a layer in [begin, end) that are in these parts and whose home is the host.
    std::int64_t on_host(const KeyParts& parts, std::int64_t layer, std::int64_t begin, std::int64_t end) const {
        begin = std::max(begin, in_hbm_ + (layer < one_more_ ? 1 : 0));
        const auto pages_in = [](std::int64_t first, std::int64_t beyond) {
            return std::max<std::int64_t>(0, beyond - first);
        };
        return pages_in(begin, std::min(end, parts.sink_pages())) + pages_in(std::max(begin, parts.first_page()), end);
    }

    const StepShape& step_;
    std::int64_t in_hbm_, one_more_;  // pages of each layer whose home is HBM; so many layers have one more
};

}  // namespace

FrameCounts count_frames(const StepShape& step, std::int64_t resident, std::int64_t kept_hbm) {
    const std::int64_t part = divide_up(longest_history_part(step), step.run().page_tokens);
    // Two windows and two own chunks: one in use, one on its way.
    const std::int64_t ring = 2 * part + 2 * std::min(step.pages_per_chunk(), step.pages()) + step.spare_pages();
    const GradientPages gradients(step, resident);
    FrameCounts counts;
    counts.at(Tier::kHbm, PageClass::kKv) = std::min(step.total_pages(), resident + ring);
    const bool backward = !step.run().forward_only;
    counts.at(Tier::kHbm, PageClass::kKvGradient) = backward ? std::min(gradients.most(), resident + ring) : 0;
    if (step.run().offload == Offload::kHost) {
        counts.at(Tier::kHost, PageClass::kKv) = step.total_pages() - resident;
        counts.at(Tier::kHost, PageClass::kKvGradient) =
            backward ? step.run().gradient_pages.of(gradients.most_on_host()) : 0;
    }
    counts.at(Tier::kHbm, PageClass::kActivation) = kept_hbm;
    counts.at(Tier::kHost, PageClass::kActivation) = step.kept_pages() - kept_hbm;
    return counts;
}

}  // namespace oomb::schedule
