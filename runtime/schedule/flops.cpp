#include "runtime/schedule/flops.hpp"

#include <algorithm>
#include <optional>
#include <vector>

#include "runtime/schedule/chunk_policy.hpp"

namespace oomb::schedule {

namespace {

// Of queries [first, first + queries), each with the keys [first_key, first_key + keys) up to its own position: a
// triangle, then a rectangle. Positions before 0 see nothing.
double causal_pairs(std::int64_t first, std::int64_t queries, std::int64_t first_key, std::int64_t keys) {
    const auto before = [&](std::int64_t query) {  // pairs of the queries before this one
        const std::int64_t rows = std::max<std::int64_t>(0, query - first_key);
        const std::int64_t triangle = std::min(rows, keys);
        return static_cast<double>(triangle) * static_cast<double>(triangle + 1) / 2 +
               static_cast<double>(rows - triangle) * static_cast<double>(keys);
    };
    return before(first + queries) - before(first);
}

}  // namespace

// A query's keys beyond the sliding window are those of the query that many positions before it.
double attention_pairs(const AttentionCost& cost) {
    if (cost.listed) {
        return static_cast<double>(cost.queries) * static_cast<double>(cost.keys);
    }
    const std::int64_t first = std::max(cost.first_key, cost.document_start);
    const std::int64_t keys = std::max<std::int64_t>(0, cost.first_key + cost.keys - first);
    const double all = causal_pairs(cost.first_query, cost.queries, first, keys);
    return cost.sliding_window == 0
               ? all
               : all - causal_pairs(cost.first_query - cost.sliding_window, cost.queries, first, keys);
}

double flops_of(const Cost& cost) {
    if (const auto* gemm = std::get_if<GemmCost>(&cost)) {
        return 2.0 * static_cast<double>(gemm->m) * static_cast<double>(gemm->n) * static_cast<double>(gemm->k);
    }
    if (const auto* attention = std::get_if<AttentionCost>(&cost)) {
        const double per_pair = static_cast<double>((attention->backward ? 10 : 4) * attention->head_dim);
        return per_pair * static_cast<double>(attention->query_heads) * attention_pairs(*attention);
    }
    return 0.0;
}

namespace {

// Parameters of the matrices that a layer multiplies with, and how often attention runs forward.
struct LayerWork {
    double parameters = 0;
    int attentions = 0;
};

double projected(const ModelShape& model, std::uint32_t parts) {
    const std::int64_t kv = ((parts & kKeyPart) != 0 ? 1 : 0) + ((parts & kValuePart) != 0 ? 1 : 0);
    const std::int64_t width = ((parts & kQueryPart) != 0 ? model.query_width() : 0) + kv * model.kv_width();
    return static_cast<double>(model.hidden * width);
}

LayerWork work_of(const ModelShape& model, const ChunkPolicy& policy, std::int64_t layer, bool forward_only) {
    const auto output = static_cast<double>(model.hidden * model.query_width());
    const auto down = static_cast<double>(model.hidden * model.ffn), gate_up = 2 * down;
    const double qkv = projected(model, kQueryPart | kKeyPart | kValuePart);
    LayerWork work;
    if (forward_only) {
        return {qkv + output + gate_up + down, 1};
    }
    const auto add = [&](const ForwardPass& pass) {
        work.parameters +=
            projected(model, pass.projects) + (pass.gate_up ? output + gate_up : 0) + (pass.down ? down : 0);
        work.attentions += pass.attends ? 1 : 0;
    };
    if (policy.filled()) {
        add(policy.fill(layer));
    }
    if (policy.runs_forward()) {
        add(policy.forward(layer));
    }
    const BackwardPass backward = policy.backward(layer);
    const bool last = layer + 1 == model.layers;
    work.parameters +=
        projected(model, backward.projects) + (backward.repeats_mlp ? output + gate_up : 0) + (last ? down : 0);
    work.attentions += backward.attends ? 1 : 0;
    work.parameters += 2 * (qkv + output + gate_up + down);  // gradients by input and by weight
    return work;
}

// Pairs of a chunk's queries with the keys that they see in a layer.
double pairs_of(const StepShape& step, std::int64_t chunk, std::int64_t layer) {
    const std::int64_t first = step.first_token(chunk), rows = step.tokens_of(chunk);
    const std::int64_t window = step.sliding_window(layer);
    const double all = causal_pairs(first, rows, 0, first + rows);
    if (step.has_lists(chunk)) {
        return causal_pairs(first, rows, first, rows) +
               static_cast<double>(rows) * static_cast<double>(step.list_tokens());
    }
    return window == 0 ? all
                       : all - causal_pairs(first - window, rows, 0, first + rows) +
                             causal_pairs(first - window, rows, 0, step.run().sinks);
}

}  // namespace

double step_flops(const StepShape& step) {
    const ModelShape& model = step.model();
    const auto per_pair = static_cast<double>(4 * model.head_dim * model.query_heads);
    const bool forward_only = step.run().forward_only;
    const double backward = forward_only ? 0 : 2.5;  // attention's in forwards
    const double heads = forward_only ? 1 : 3;       // products with the head: by input and by weight backward
    const double measured = 0.5;                     // the mass of pages: scores alone
    double flops = 0;
    std::vector<LayerWork> works(static_cast<std::size_t>(model.layers));  // of `worked`
    std::optional<ChunkPolicy> worked;
    for (std::int64_t chunk = 0; chunk < step.chunks(); ++chunk) {
        const ChunkPolicy policy(step, chunk);
        if (!worked || !policy.computes_as(*worked)) {  // long runs of chunks do
            worked = policy;
            for (std::int64_t layer = 0; layer < model.layers; ++layer) {
                works[static_cast<std::size_t>(layer)] = work_of(model, policy, layer, forward_only);
            }
        }
        const auto rows = static_cast<double>(step.tokens_of(chunk));
        double pairs = 0;
        const bool recall = step.measures_recall();
        const double scores =  // once per layer
            step.scores_lists(chunk) || recall
                ? 2 * rows * static_cast<double>(step.first_page(chunk) * model.kv_width())
                : 0;
        const double mass = recall ? measured * per_pair * rows * static_cast<double>(step.first_token(chunk)) : 0;
        flops += (scores + mass) * static_cast<double>(model.layers);
        flops += 2 * rows * heads * static_cast<double>(model.vocab * model.hidden);
        for (std::int64_t layer = 0; layer < model.layers; ++layer) {
            const LayerWork& work = works[static_cast<std::size_t>(layer)];
            if (layer == 0 || step.sliding_window(layer) != step.sliding_window(layer - 1)) {
                pairs = pairs_of(step, chunk, layer);
            }
            flops += 2 * rows * work.parameters + per_pair * pairs * (work.attentions + backward);
        }
    }
    return flops;
}

}  // namespace oomb::schedule
