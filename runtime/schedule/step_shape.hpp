#pragma once
// A sequence of T tokens cut into chunks and windows, and the numbers that follow from it.

#include <algorithm>
#include <cstdint>

#include "runtime/core/attention_kernels.hpp"
#include "runtime/core/error.hpp"
#include "runtime/core/model_shape.hpp"
#include "runtime/core/page_set.hpp"
#include "runtime/core/run_configuration.hpp"

namespace oomb::schedule {

constexpr std::int64_t divide_up(std::int64_t a, std::int64_t b) {
    return (a + b - 1) / b;
}

class StepShape {
  public:
    // `run.context_tokens` is the sequence's length T. Both are copied.
    StepShape(const ModelShape& model, const RunConfiguration& run) : model_(model), run_(run) {}

    const ModelShape& model() const { return model_; }
    const RunConfiguration& run() const { return run_; }

    std::int64_t tokens() const { return run_.context_tokens; }
    std::int64_t chunks() const { return divide_up(tokens(), run_.chunk_tokens); }
    std::int64_t pages() const { return divide_up(tokens(), run_.page_tokens); }  // per layer
    std::int64_t pages_per_chunk() const { return run_.chunk_tokens / run_.page_tokens; }
    std::int64_t pages_per_window() const { return run_.window_tokens / run_.page_tokens; }
    std::int64_t total_pages() const { return pages() * model_.layers; }
    std::int64_t held_chunks() const { return run_.held_chunks.of(chunks()); }

    std::int64_t first_token(std::int64_t chunk) const { return chunk * run_.chunk_tokens; }
    std::int64_t tokens_of(std::int64_t chunk) const {
        return std::min(run_.chunk_tokens, tokens() - first_token(chunk));
    }
    std::int64_t first_page(std::int64_t chunk) const { return chunk * pages_per_chunk(); }
    std::int64_t pages_of(std::int64_t chunk) const { return divide_up(tokens_of(chunk), run_.page_tokens); }

    // The window of a layer's attention, the smaller of the model's and the run's: w, a token sees itself and the w - 1
    // before it, and the sinks; 0, all before it, also where w is not below the sequence. Parts of the history:
    // key_parts.hpp.
    std::int64_t sliding_window(std::int64_t layer) const {
        const std::int64_t window = combined_window(model_.sliding_window(layer), run_.local_window);
        return window < tokens() ? window : 0;
    }

    // Top-K and random. A chunk with more than K pages before it has lists: of each of its query pages the pages that
    // it attends to.
    std::int64_t first_listed_chunk() const { return run_.top_k / pages_per_chunk() + 1; }
    bool has_lists(std::int64_t chunk) const { return has_page_lists(run_.attention) && chunk >= first_listed_chunk(); }
    bool selects() const { return has_lists(chunks() - 1); }
    // The lists are made from scores, which need the means of the pages' keys; random ones are drawn by whoever issues.
    bool scores_lists(std::int64_t chunk) const { return run_.attention == AttentionMode::kTopK && has_lists(chunk); }
    bool measures_recall() const { return !run_.recall_budgets.empty() && chunks() > 1; }
    bool needs_means() const { return scores_lists(chunks() - 1) || measures_recall(); }
    std::int64_t first_listed_page() const { return first_page(first_listed_chunk()); }
    std::int64_t listed_pages() const { return selects() ? pages() - first_listed_page() : 0; }  // per layer
    std::int64_t list_tokens() const { return run_.top_k * run_.page_tokens; }
    // Query pages that are served together: a window holds all that their lists name.
    std::int64_t pages_per_group() const { return std::max<std::int64_t>(1, pages_per_window() / run_.top_k); }
    std::int64_t groups(std::int64_t chunk) const { return divide_up(pages_of(chunk), pages_per_group()); }

    // Frames of the ring beside two windows and two chunks, where there are lists: what a layer is expected to read
    // comes before its lists are known, and gradients wait for the last group of the layer that adds to them.
    std::int64_t spare_pages() const {
        return selects() ? std::min(kSpareWindows * pages_per_window(), first_page(chunks() - 1)) : 0;
    }
    // Which kernels compute attention, decided; own ones read pages where they lie.
    AttentionKernels attention_kernels() const { return decided_attention_kernels(run_, model_.head_dim); }
    bool own_kernels() const { return attention_kernels() == AttentionKernels::kOwn; }
    // A part of attention, `listed` or not, adds its result to that over the parts before; else a merge follows it.
    bool merges_in_place(bool listed) const { return own_kernels() || (listed && run_.device == DeviceKind::kCuda); }

    std::int64_t longest_chunk() const { return std::min(run_.chunk_tokens, tokens()); }

    // Chunks of which pages can be kept: filled ones that are not held since their fill. With layer inputs and outputs
    // also the last chunk, whose own forward keeps them: the slots then need not outlast it.
    std::int64_t keepable_chunks() const;
    // Kept pages, over all layers, and the chunks that they are of.
    std::int64_t kept_pages() const {
        const std::int64_t pages = run_.kept_pages.of(keepable_chunks() * model_.layers);
        return keeps_input(run_.keep) ? pages / model_.layers * model_.layers : pages;
    }
    std::int64_t kept_chunks() const { return divide_up(kept_pages(), model_.layers); }
    // Chunks in the order in which they are kept: the latest filled one first, for attention over the longest history
    // is what is saved, the last one, which saves nothing, last. Negative: held since its fill.
    std::int64_t kept_rank(std::int64_t chunk) const;

    std::int64_t compute_bytes() const { return bytes_of(run_.compute); }
    std::int64_t accumulator_bytes() const { return bytes_of(run_.accumulator); }
    std::int64_t gradient_bytes() const { return bytes_of(run_.gradient_type()); }
    // Gradients of vectors have a region of their own where those of matrices are in another type.
    bool vectors_apart() const { return run_.gradient_type() != run_.accumulator; }
    std::int64_t vector_gradient_bytes() const {
        return vectors_apart() ? model_.vector_parameters() * accumulator_bytes() : 0;
    }
    std::int64_t all_gradient_bytes() const {
        return run_.forward_only ? 0 : model_.parameters() * gradient_bytes() + vector_gradient_bytes();
    }
    std::int64_t qkv_width() const { return model_.query_width() + 2 * model_.kv_width(); }

    // K and V planes of one page.
    std::int64_t page_plane_bytes(PageClass page_class) const {
        const std::int64_t element = page_class == PageClass::kKv ? compute_bytes() : accumulator_bytes();
        return run_.page_tokens * model_.kv_width() * element;
    }

    // Planes of a kept page, one chunk of one layer: layer input, attention output, log-sum-exp, those of them that are
    // kept.
    std::int64_t kept_input_bytes(std::int64_t rows) const { return rows * model_.hidden * compute_bytes(); }
    std::int64_t kept_output_bytes(std::int64_t rows) const { return rows * model_.query_width() * compute_bytes(); }
    std::int64_t kept_lse_bytes(std::int64_t rows) const { return rows * model_.query_heads * accumulator_bytes(); }
    std::int64_t kept_bytes(std::int64_t rows) const {
        return (keeps_input(run_.keep) ? kept_input_bytes(rows) : 0) +
               (keeps_output(run_.keep) ? kept_output_bytes(rows) + kept_lse_bytes(rows) : 0);
    }

  private:
    static constexpr std::int64_t kSpareWindows = 2;

    ModelShape model_;
    RunConfiguration run_;
};

inline std::int64_t StepShape::keepable_chunks() const {
    switch (run_.keep) {
        case Keep::kNone:
            return 0;
        case Keep::kInputAndOutput:
            return chunks();
        case Keep::kAuto:
            fail<InternalError>("what is kept is asked for before the plan has decided it");
        default:
            return chunks() - std::max<std::int64_t>(1, held_chunks());
    }
}

inline std::int64_t StepShape::kept_rank(std::int64_t chunk) const {
    const std::int64_t last = chunks() - 1;
    return chunk == last ? last : last - std::max<std::int64_t>(1, held_chunks()) - chunk;
}

}  // namespace oomb::schedule
