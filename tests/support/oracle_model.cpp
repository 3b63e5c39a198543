#include "tests/support/oracle_model.hpp"

#include <ATen/ATen.h>

#include <algorithm>
#include <array>
#include <cmath>

namespace oomb::testing {
namespace {

using at::Tensor;
using trainer::ParameterKind;
using trainer::ParameterLayout;

struct OracleRecall {
    std::int64_t chunk_tokens, page_tokens;
    const std::vector<std::int64_t>& budgets;
    std::vector<RecallSums> sums;  // [layers, budgets]
};

struct Model {
    const ModelShape& shape;
    const ParameterLayout& layout;
    const Tensor& weights;
    const OracleTopK* top_k = nullptr;
    OracleResult* result = nullptr;
    OracleRecall* recall = nullptr;
    std::vector<std::array<Tensor, 2>>* projected = nullptr;  // K and V of each layer, whose gradients are wanted
    OracleLocal local = {};

    Tensor vector(ParameterKind kind, std::int64_t layer, std::int64_t size) const {
        return weights.narrow(0, layout.offset(kind, layer), size);
    }
    Tensor matrix(ParameterKind kind, std::int64_t layer, std::int64_t rows, std::int64_t columns) const {
        return vector(kind, layer, rows * columns).view({rows, columns});
    }
};

// bf16 as transformers and flash attention compute it: statistics, scores and losses in fp32, the rest rounded.
Tensor wide(const Tensor& x) {
    return x.scalar_type() == at::kBFloat16 ? x.to(at::kFloat) : x;
}

Tensor rms_norm(const Tensor& x, const Tensor& weight, double eps) {
    const Tensor values = wide(x);
    return (values * at::rsqrt((values * values).mean(-1, true) + eps)).to(x.scalar_type()) * weight;
}

// [tokens, heads, head_dim], rotate-half.
Tensor rope(const Tensor& x, const ModelShape& shape) {
    const RopeFrequencies frequencies = rope_frequencies(shape);
    const std::int64_t half = shape.head_dim / 2;
    Tensor angles = at::empty({x.size(0), 1, half}, at::kDouble);
    for (std::int64_t position = 0; position < x.size(0); ++position) {
        for (std::int64_t i = 0; i < half; ++i) {
            angles[position][0][i] =
                static_cast<double>(position) * static_cast<double>(frequencies.inverse_frequency[i]);
        }
    }
    const Tensor cosine = (angles.cos() * frequencies.attention_factor).to(x.scalar_type()),
                 sine = (angles.sin() * frequencies.attention_factor).to(x.scalar_type());
    const Tensor a = x.narrow(2, 0, half), b = x.narrow(2, half, half);
    return at::cat({a * cosine - b * sine, b * cosine + a * sine}, 2);
}

// Of the first `history` pages of keys, for the queries of one page: [history].
Tensor page_scores(std::int64_t page_tokens, const Tensor& q, const Tensor& k, std::int64_t history) {
    const std::int64_t kv_heads = k.size(1), head_dim = k.size(2);
    const Tensor means =
        k.narrow(0, 0, history * page_tokens).reshape({history, page_tokens, kv_heads, head_dim}).mean(1);
    const Tensor grouped = q.reshape({q.size(0), kv_heads, -1, head_dim}).sum(2);
    const Tensor logits = at::einsum("thd,phd->thp", {grouped, means}) / std::sqrt(static_cast<double>(head_dim));
    return logits.softmax(-1).sum(c10::IntArrayRef{0, 1});
}

// The sums of `mass` over the first pages in the order of `order`, for one page of queries.
double covered(const Tensor& mass, const Tensor& order, std::int64_t pages) {
    return mass.index_select(0, order.narrow(0, 0, pages)).sum().item<double>();
}

// `p` is [query heads, tokens, tokens], q and k as for page_scores.
void add_recall(OracleRecall& recall, std::int64_t layer, const Tensor& q, const Tensor& k, const Tensor& p) {
    const std::int64_t page = recall.page_tokens;
    for (std::int64_t first = recall.chunk_tokens; first < q.size(0); first += page) {
        const std::int64_t rows = std::min(page, q.size(0) - first);
        const std::int64_t history = first / recall.chunk_tokens * (recall.chunk_tokens / page);
        const Tensor mass = p.narrow(1, first, rows)
                                .narrow(2, 0, history * page)
                                .sum(c10::IntArrayRef{0, 1})
                                .view({history, page})
                                .sum(1);
        const Tensor by_score = page_scores(page, q.narrow(0, first, rows), k, history).argsort(true, 0, true);
        const Tensor by_mass = mass.argsort(true, 0, true), latest = at::arange(history).flip(0);
        for (std::size_t i = 0; i < recall.budgets.size() && recall.budgets[i] < history; ++i) {
            const std::int64_t pages = recall.budgets[i];
            RecallSums& sums = recall.sums[layer * recall.budgets.size() + i];
            sums.query_pages += 1;
            sums.all_mass += p.narrow(1, first, rows).sum().item<double>();
            sums.history_mass += mass.sum().item<double>();
            sums.by_score += covered(mass, by_score, pages);
            sums.by_mass += covered(mass, by_mass, pages);
            sums.by_recency += covered(mass, latest, pages);
            sums.by_chance += mass.mean().item<double>() * static_cast<double>(pages);
            for (std::int64_t rank = 0; rank < pages; ++rank) {
                const auto distance = static_cast<double>(history - by_score[rank].item<std::int64_t>());
                sums.distances[static_cast<std::int64_t>(std::floor(std::log2(distance)))] += 1;
            }
        }
    }
}

// The best of the first `history` pages of keys, ascending, for the queries of one page.
std::vector<std::int32_t> select_pages(const OracleTopK& top_k, const Tensor& q, const Tensor& k, std::int64_t history,
                                       double& least_gap) {
    const Tensor scores = page_scores(top_k.page_tokens, q, k, history);
    const auto [sorted, pages] = scores.sort(true, 0, true);
    least_gap = std::min(least_gap, 1 - (sorted[top_k.pages] / sorted[top_k.pages - 1]).item<double>());
    const Tensor best = pages.narrow(0, 0, top_k.pages);
    const Tensor list = std::get<0>(best.sort()).to(at::kInt);
    return {list.data_ptr<std::int32_t>(), list.data_ptr<std::int32_t>() + top_k.pages};
}

// Hides the pages that are not selected. `hidden` is [tokens, tokens], q and k are [tokens, heads, head_dim].
std::vector<std::int32_t> hide_pages(const OracleTopK& top_k, std::int64_t layer, const Tensor& q, const Tensor& k,
                                     Tensor& hidden, double& least_gap) {
    std::vector<std::int32_t> lists;
    const std::int64_t page = top_k.page_tokens;
    for (std::int64_t first = 0; first < q.size(0); first += page) {
        const std::int64_t rows = std::min(page, q.size(0) - first);
        const std::int64_t history = first / top_k.chunk_tokens * (top_k.chunk_tokens / page);
        if (history <= top_k.pages) {
            continue;
        }
        std::vector<std::int32_t> list;
        if (top_k.given != nullptr) {
            const auto begin = top_k.given->at(layer).begin() + std::ssize(lists);
            list.assign(begin, begin + top_k.pages);
        } else {
            list = select_pages(top_k, q.narrow(0, first, rows), k, history, least_gap);
        }
        hidden.narrow(0, first, rows).narrow(1, 0, history * page).fill_(true);
        for (const std::int32_t selected : list) {
            hidden.narrow(0, first, rows).narrow(1, selected * page, page).fill_(false);
        }
        lists.insert(lists.end(), list.begin(), list.end());
    }
    return lists;
}

// [tokens, tokens], true where key j is at least `window` before query i, but not one of the sinks.
Tensor beyond_window(std::int64_t tokens, std::int64_t window, std::int64_t sinks) {
    const Tensor position = at::arange(tokens, at::kLong);
    const Tensor distance = position.view({-1, 1}) - position.view({1, -1});
    return distance.ge(window).logical_and(position.view({1, -1}).ge(sinks));
}

Tensor attention(const Model& model, const Tensor& x, std::int64_t layer) {
    const ModelShape& shape = model.shape;
    const std::int64_t tokens = x.size(0);
    const auto project = [&](ParameterKind weight, ParameterKind bias, std::int64_t heads) {
        const std::int64_t width = heads * shape.head_dim;
        Tensor y = x.matmul(model.matrix(weight, layer, width, shape.hidden).t());
        return (shape.qkv_bias ? y + model.vector(bias, layer, width) : y).view({tokens, heads, shape.head_dim});
    };
    Tensor q = project(ParameterKind::kQWeight, ParameterKind::kQBias, shape.query_heads);
    Tensor k = project(ParameterKind::kKWeight, ParameterKind::kKBias, shape.kv_heads);
    Tensor v = project(ParameterKind::kVWeight, ParameterKind::kVBias, shape.kv_heads);
    if (model.projected != nullptr) {
        k.retain_grad();
        v.retain_grad();
        (*model.projected)[layer] = {k, v};
    }
    if (shape.qk_norm) {
        q = rms_norm(q, model.vector(ParameterKind::kQNorm, layer, shape.head_dim), shape.rms_norm_eps);
        k = rms_norm(k, model.vector(ParameterKind::kKNorm, layer, shape.head_dim), shape.rms_norm_eps);
    }
    q = rope(q, shape);
    k = rope(k, shape);
    Tensor hidden = at::ones({tokens, tokens}, at::kBool).triu(1);
    if (model.top_k != nullptr) {
        model.result->lists[layer] =
            hide_pages(*model.top_k, layer, q.detach(), k.detach(), hidden, model.result->least_score_gap);
    }
    if (shape.sliding_window(layer) > 0) {
        hidden.logical_or_(beyond_window(tokens, shape.sliding_window(layer), 0));
    }
    if (model.local.window > 0) {
        hidden.logical_or_(beyond_window(tokens, model.local.window, model.local.sinks));
    }
    const Tensor rotated_q = q, rotated_k = k;
    q = q.transpose(0, 1);
    k = k.repeat_interleave(shape.group(), 1).transpose(0, 1);
    v = v.repeat_interleave(shape.group(), 1).transpose(0, 1);
    const Tensor scores = wide(q).matmul(wide(k).transpose(1, 2)) / std::sqrt(static_cast<double>(shape.head_dim));
    const Tensor p = scores.masked_fill(hidden, -INFINITY).softmax(-1).to(x.scalar_type());
    if (model.recall != nullptr) {
        add_recall(*model.recall, layer, rotated_q, rotated_k, p);
    }
    const Tensor o = p.matmul(v).transpose(0, 1).reshape({tokens, shape.query_width()});
    const Tensor y = o.matmul(model.matrix(ParameterKind::kOWeight, layer, shape.hidden, shape.query_width()).t());
    return shape.output_bias ? y + model.vector(ParameterKind::kOBias, layer, shape.hidden) : y;
}

Tensor mlp(const Model& model, const Tensor& x, std::int64_t layer) {
    const ModelShape& shape = model.shape;
    const Tensor gate = x.matmul(model.matrix(ParameterKind::kGateWeight, layer, shape.ffn, shape.hidden).t());
    const Tensor up = x.matmul(model.matrix(ParameterKind::kUpWeight, layer, shape.ffn, shape.hidden).t());
    return (gate * gate.sigmoid() * up)
        .matmul(model.matrix(ParameterKind::kDownWeight, layer, shape.hidden, shape.ffn).t());
}

Tensor int_tensor(std::span<const std::int32_t> values) {
    return at::from_blob(const_cast<std::int32_t*>(values.data()), {static_cast<std::int64_t>(values.size())}, at::kInt)
        .to(at::kLong);
}

// [tokens], 0 where there is no target.
Tensor token_losses(const Model& model, const trainer::SequenceView& sequence) {
    const ModelShape& shape = model.shape;
    const Tensor table = model.matrix(ParameterKind::kEmbedding, -1, shape.vocab, shape.hidden);
    Tensor x = table.index_select(0, int_tensor(sequence.tokens));
    for (std::int64_t layer = 0; layer < shape.layers; ++layer) {
        const auto norm = [&](ParameterKind kind) {
            return rms_norm(x, model.vector(kind, layer, shape.hidden), shape.rms_norm_eps);
        };
        x = x + attention(model, norm(ParameterKind::kInputNorm), layer);
        x = x + mlp(model, norm(ParameterKind::kPostNorm), layer);
    }
    x = rms_norm(x, model.vector(ParameterKind::kFinalNorm, -1, shape.hidden), shape.rms_norm_eps);
    const Tensor log_p =
        wide(x.matmul(model.matrix(ParameterKind::kHead, -1, shape.vocab, shape.hidden).t())).log_softmax(-1);
    const Tensor targets = int_tensor(sequence.targets);
    return -log_p.gather(1, targets.clamp_min(0).view({-1, 1})).view({-1}) * targets.ge(0);
}

}  // namespace

OracleResult oracle_step(const ModelShape& shape, const ParameterLayout& layout, const std::vector<double>& weights,
                         std::span<const trainer::SequenceView> sequences, DType type, const OracleTopK* top_k,
                         OracleLocal local) {
    const at::ScalarType computed = type == DType::kBF16 ? at::kBFloat16 : at::kDouble;
    Tensor flat =
        at::from_blob(const_cast<double*>(weights.data()), {layout.elements()}, at::kDouble).to(computed, false, true);
    flat.requires_grad_(true);
    OracleResult result;
    result.lists.resize(shape.layers);
    std::vector<std::array<Tensor, 2>> projected(shape.layers);
    const Model model{shape, layout, flat, top_k, &result, nullptr, &projected, local};
    Tensor total = at::zeros({}, type == DType::kBF16 ? at::kFloat : at::kDouble);
    std::int64_t valid = 0;
    for (const trainer::SequenceView& sequence : sequences) {
        total = total + token_losses(model, sequence).sum();
        valid += int_tensor(sequence.targets).ge(0).sum().item<std::int64_t>();
    }
    total = total / static_cast<double>(valid);
    total.backward();
    const auto values_of = [](const Tensor& of) {
        const Tensor values = of.to(at::kDouble).contiguous();
        return std::vector<double>(values.data_ptr<double>(), values.data_ptr<double>() + values.numel());
    };
    for (const auto& [key, value] : projected) {
        result.key_gradients.push_back(values_of(key.grad()));
        result.value_gradients.push_back(values_of(value.grad()));
    }
    const Tensor gradient = flat.grad().to(at::kDouble).contiguous();
    result.loss = total.to(at::kDouble).item<double>();
    result.gradients.assign(gradient.data_ptr<double>(), gradient.data_ptr<double>() + layout.elements());
    return result;
}

std::vector<double> oracle_losses(const ModelShape& shape, const ParameterLayout& layout,
                                  const std::vector<double>& weights, const trainer::SequenceView& sequence,
                                  const OracleTopK* top_k, PageListsByLayer* lists, OracleLocal local) {
    const Tensor flat = at::from_blob(const_cast<double*>(weights.data()), {layout.elements()}, at::kDouble);
    OracleResult result;
    result.lists.resize(shape.layers);
    const Tensor losses =
        token_losses({shape, layout, flat, top_k, &result, nullptr, nullptr, local}, sequence).contiguous();
    if (lists != nullptr) {
        *lists = std::move(result.lists);
    }
    return {losses.data_ptr<double>(), losses.data_ptr<double>() + losses.numel()};
}

std::vector<RecallSums> oracle_recall(const ModelShape& shape, const ParameterLayout& layout,
                                      const std::vector<double>& weights, const trainer::SequenceView& sequence,
                                      std::int64_t chunk_tokens, std::int64_t page_tokens,
                                      const std::vector<std::int64_t>& budgets) {
    const Tensor flat = at::from_blob(const_cast<double*>(weights.data()), {layout.elements()}, at::kDouble);
    OracleRecall recall{chunk_tokens, page_tokens, budgets, std::vector<RecallSums>(shape.layers * budgets.size())};
    token_losses({shape, layout, flat, nullptr, nullptr, &recall}, sequence);
    return std::move(recall.sums);
}

}  // namespace oomb::testing
