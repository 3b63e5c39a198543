#include "runtime/schedule/flops.hpp"

#include <algorithm>

#include "runtime/schedule/chunk_policy.hpp"

namespace oomb::schedule {

double attention_pairs(const AttentionCost& cost) {
    const std::int64_t end = cost.first_key + cost.keys;
    if (cost.listed) {
        return static_cast<double>(cost.queries) * static_cast<double>(cost.keys);
    }
    if (cost.first_query >= end - 1 && cost.sliding_window == 0 && cost.document_start <= cost.first_key) {
        return static_cast<double>(cost.queries) * static_cast<double>(cost.keys);
    }
    if (cost.sliding_window == 0 && cost.document_start <= cost.first_key) {
        // Query q sees q + 1 - first_key keys, at least 0 and at most all: a triangle, then a rectangle.
        const auto below = [&](std::int64_t query) {  // pairs of the queries before this one
            const std::int64_t rows = std::max<std::int64_t>(0, query - cost.first_key);
            const std::int64_t triangle = std::min(rows, cost.keys);
            return static_cast<double>(triangle) * static_cast<double>(triangle + 1) / 2 +
                   static_cast<double>(rows - triangle) * static_cast<double>(cost.keys);
        };
        return below(cost.first_query + cost.queries) - below(cost.first_query);
    }
    double pairs = 0;
    for (std::int64_t query = cost.first_query; query < cost.first_query + cost.queries; ++query) {
        std::int64_t first = std::max(cost.first_key, cost.document_start);
        if (cost.sliding_window > 0) {
            first = std::max(first, query + 1 - cost.sliding_window);
        }
        pairs += static_cast<double>(std::max<std::int64_t>(0, std::min(end, query + 1) - first));
    }
    return pairs;
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

}  // namespace

double step_flops(const StepShape& step) {
    const ModelShape& model = step.model();
    const auto per_pair = static_cast<double>(4 * model.head_dim * model.query_heads);
    const bool forward_only = step.run().forward_only;
    const double backward = forward_only ? 0 : 2.5;  // attention's in forwards
    const double heads = forward_only ? 1 : 3;       // products with the head: by input and by weight backward
    const double measured = 0.5;                     // the mass of pages: scores alone
    double flops = 0;
    for (std::int64_t chunk = 0; chunk < step.chunks(); ++chunk) {
        const ChunkPolicy policy(step, chunk);
        const auto rows = static_cast<double>(step.tokens_of(chunk));
        const bool listed = step.has_lists(chunk);
        const std::int64_t history = listed ? step.list_tokens() : step.first_token(chunk);
        const double pairs = rows * static_cast<double>(history) + rows * (rows + 1) / 2;
        const bool recall = step.measures_recall();
        const double scores =  // once per layer
            step.scores_lists(chunk) || recall
                ? 2 * rows * static_cast<double>(step.first_page(chunk) * model.kv_width())
                : 0;
        const double mass = recall ? measured * per_pair * rows * static_cast<double>(step.first_token(chunk)) : 0;
        flops += (scores + mass) * static_cast<double>(model.layers);
        flops += 2 * rows * heads * static_cast<double>(model.vocab * model.hidden);
        for (std::int64_t layer = 0; layer < model.layers; ++layer) {
            const LayerWork work = work_of(model, policy, layer, forward_only);
            flops += 2 * rows * work.parameters + per_pair * pairs * (work.attentions + backward);
        }
    }
    return flops;
}

}  // namespace oomb::schedule
