#include "tests/kernels/oracle.hpp"

#include <ATen/ATen.h>

#include <cmath>
#include <limits>

namespace oomb::kernels::oracle {
namespace {

at::Tensor leaf(const Values& values, at::IntArrayRef shape) {
    return at::tensor(values, at::kDouble).reshape(shape).clone().set_requires_grad(true);
}

at::Tensor constant(const Values& values, at::IntArrayRef shape) {
    return at::tensor(values, at::kDouble).reshape(shape);
}

Values values_of(const at::Tensor& tensor) {
    const at::Tensor dense = tensor.detach().contiguous();
    return Values(dense.const_data_ptr<double>(), dense.const_data_ptr<double>() + dense.numel());
}

at::Tensor targets_tensor(const std::vector<std::int32_t>& values) {
    return at::tensor(std::vector<std::int64_t>(values.begin(), values.end()), at::kLong);
}

}  // namespace

AttentionResult attention(const AttentionInput& in) {
    const at::Tensor q = leaf(in.q, {in.tokens, in.query_heads, in.head_dim});
    const at::Tensor k = leaf(in.k, {in.keys, in.kv_heads, in.head_dim});
    const at::Tensor v = leaf(in.v, {in.keys, in.kv_heads, in.head_dim});
    const at::Tensor d_o = constant(in.d_o, q.sizes());
    const std::int64_t group = in.query_heads / in.kv_heads;
    const std::vector<std::int64_t> visible(in.visible.begin(), in.visible.end());
    const at::Tensor seen = at::tensor(visible, at::kLong).reshape({1, in.tokens, in.keys}).ne(0);
    const at::Tensor any = seen.any(-1, true);
    const auto by_head = [&](const at::Tensor& rows) { return rows.repeat_interleave(group, 1).transpose(0, 1); };
    const at::Tensor scores = q.transpose(0, 1).matmul(by_head(k).transpose(1, 2)) * in.scale;
    // Rows that see nothing stay unmasked, for softmax would make NaN of them, and count with factor 0.
    const double minus_infinity = -std::numeric_limits<double>::infinity();
    const at::Tensor masked = scores.masked_fill(seen.logical_not().logical_and(any), minus_infinity);
    const at::Tensor o = (masked.softmax(-1).matmul(by_head(v)) * any.to(at::kDouble)).transpose(0, 1);
    const at::Tensor lse = masked.logsumexp(-1, true).masked_fill(any.logical_not(), minus_infinity).squeeze(-1);
    (o * d_o).sum().backward();
    return {values_of(o),
            values_of(lse.transpose(0, 1)),
            values_of((o * d_o).sum(-1)),
            values_of(q.grad()),
            values_of(k.grad()),
            values_of(v.grad())};
}

PageSelectionResult page_selection(const PageSelectionInput& in) {
    const at::Tensor k = constant(in.k, {-1, in.page_tokens, in.kv_heads, in.head_dim});
    const Values means = values_of(k.mean(1));
    return {means, page_scores(in, means)};
}

Values page_scores(const PageSelectionInput& in, const Values& means) {
    const at::Tensor q = constant(in.q, {-1, in.kv_heads, in.query_heads / in.kv_heads, in.head_dim}).sum(2);
    const at::Tensor m = constant(means, {-1, in.kv_heads, in.head_dim});
    const at::Tensor votes = (at::einsum("thd,phd->thp", {q, m}) / std::sqrt(double(in.head_dim))).softmax(-1).sum(1);
    std::vector<at::Tensor> rows;
    for (const at::Tensor& page : votes.split(in.page_tokens)) {
        rows.push_back(page.sum(0));
    }
    return values_of(at::stack(rows));
}

RmsNormResult rms_norm(const Values& x_values, const Values& weight_values, const Values& dy_values, double eps) {
    const auto width = static_cast<std::int64_t>(weight_values.size());
    const at::Tensor x = leaf(x_values, {-1, width});
    const at::Tensor weight = leaf(weight_values, {width});
    const at::Tensor y = weight * (x * (x.square().mean(-1, true) + eps).rsqrt());
    (y * constant(dy_values, x.sizes())).sum().backward();
    return {values_of(y), values_of(x.grad()), values_of(weight.grad())};
}

RopeResult rope(const Values& x_values, const Values& dy_values, const std::vector<std::int64_t>& positions,
                const std::vector<float>& inverse_frequency, double attention_factor) {
    const auto half = static_cast<std::int64_t>(inverse_frequency.size());
    const auto rows = static_cast<std::int64_t>(positions.size());
    const at::Tensor x = leaf(x_values, {rows, -1, 2 * half});
    const at::Tensor frequency = constant(Values(inverse_frequency.begin(), inverse_frequency.end()), {half});
    const at::Tensor angle = at::tensor(positions, at::kLong).to(at::kDouble).reshape({rows, 1}) * frequency;
    const at::Tensor cosine = (at::cat({angle, angle}, -1).cos() * attention_factor).unsqueeze(1);
    const at::Tensor sine = (at::cat({angle, angle}, -1).sin() * attention_factor).unsqueeze(1);
    const at::Tensor rotated = at::cat({-x.slice(-1, half), x.slice(-1, 0, half)}, -1);
    const at::Tensor y = x * cosine + rotated * sine;
    (y * constant(dy_values, x.sizes())).sum().backward();
    return {values_of(y), values_of(x.grad())};
}

SwigluResult swiglu(const Values& gate_values, const Values& up_values, const Values& d_act_values) {
    const at::Tensor gate = leaf(gate_values, {-1});
    const at::Tensor up = leaf(up_values, {-1});
    const at::Tensor act = at::silu(gate) * up;
    (act * constant(d_act_values, {-1})).sum().backward();
    return {values_of(act), values_of(gate.grad()), values_of(up.grad())};
}

EmbeddingResult embedding(const std::vector<std::int32_t>& tokens, const Values& table_values, const Values& dy_values,
                          std::int64_t width) {
    const at::Tensor table = leaf(table_values, {-1, width});
    const at::Tensor y = at::embedding(table, targets_tensor(tokens));
    (y * constant(dy_values, y.sizes())).sum().backward();
    return {values_of(y), values_of(table.grad())};
}

CrossEntropyResult cross_entropy(const Values& logit_values, const std::vector<std::int32_t>& targets, double scale) {
    const at::Tensor logits = leaf(logit_values, {static_cast<std::int64_t>(targets.size()), -1});
    const at::Tensor losses = at::cross_entropy_loss(logits, targets_tensor(targets), {}, at::Reduction::None, -100);
    (losses.sum() * scale).backward();
    return {values_of(losses), values_of(logits.grad())};
}

void adamw(AdamWState& state, const Values& gradient, std::int64_t step, const AdamWSettings& settings) {
    at::Tensor weights = constant(state.weights, {-1}).clone();
    at::Tensor m = constant(state.m, {-1}).clone();
    at::Tensor v = constant(state.v, {-1}).clone();
    at::_fused_adamw_({weights}, {constant(gradient, {-1})}, {m}, {v}, {},
                      {at::tensor(static_cast<double>(step - 1)) + 1}, settings.learning_rate, settings.beta1,
                      settings.beta2, settings.weight_decay, settings.eps,
                      /*amsgrad=*/false, /*maximize=*/false);
    state = {values_of(weights), values_of(m), values_of(v)};
}

}  // namespace oomb::kernels::oracle
