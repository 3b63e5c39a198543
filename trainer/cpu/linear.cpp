// Matrix products of the CPU backend. A weight is [outputs, inputs]: y = x W^T, dx = dy W, dW += dy^T x.

#include <algorithm>

#include "runtime/core/error.hpp"
#include "trainer/cpu/cpu_backend.hpp"
#include "trainer/cpu/matrix.hpp"
#include "trainer/executor/operand_regions.hpp"

namespace oomb::trainer {

using enum schedule::RegionName;

namespace {

// Rows of bf16 operands that are widened at a time, where the sum is wider than they are.
constexpr std::int64_t kWidenedRows = 128;

// dw += dy^T x: one rounding to dw's type where it is the operands', else fp32 sums of bf16 products.
void add_product(at::Tensor dw, const at::Tensor& dy, const at::Tensor& x) {
    if (dw.scalar_type() == dy.scalar_type()) {
        dw.addmm_(dy.t(), x);
        return;
    }
    for (std::int64_t first = 0; first < dy.size(0); first += kWidenedRows) {
        const std::int64_t rows = std::min(kWidenedRows, dy.size(0) - first);
        const auto wide = [&](const at::Tensor& all) { return all.narrow(0, first, rows).to(dw.scalar_type()); };
        dw.addmm_(wide(dy).t(), wide(x));
    }
}

}  // namespace

// The columns of the qkv buffer that `part` names, each of the three as a product of its own: a library's bits may
// change with the number of columns, and what is computed alone must equal what is computed beside the others.
template <class T>
void CpuBackend<T>::linear_qkv(const Issued& issued) {
    const std::int64_t rows = issued.operation.rows, layer = issued.operation.id.layer, hidden = model_.hidden;
    const std::int64_t query = model_.query_width(), kv = model_.kv_width(), stride = query + 2 * kv;
    const auto x = matrix(memory_.template read<T>(issued, kNormed, rows * hidden), rows, hidden);
    const T* weights = weight(issued, ParameterKind::kQWeight, layer);
    T* output = memory_.template write<T>(issued, kQkv, rows * stride);
    const auto multiply = [&](std::uint32_t part, std::int64_t first, std::int64_t columns) {
        if ((issued.operation.id.part & part) != 0) {
            auto y = matrix(output + first, rows, columns, stride);
            at::mm_out(y, x, matrix(weights + first * hidden, columns, hidden).t());
        }
    };
    multiply(schedule::kQueryPart, 0, query);
    multiply(schedule::kKeyPart, query, kv);
    multiply(schedule::kValuePart, query + kv, kv);
}

template <class T>
void CpuBackend<T>::linear_output(const Issued& issued) {
    const std::int64_t rows = issued.operation.rows, layer = issued.operation.id.layer;
    const std::int64_t hidden = model_.hidden, width = model_.query_width();
    const auto x = matrix(memory_.template read<T>(issued, kLayerInput, rows * hidden), rows, hidden);
    const auto o = matrix(memory_.template read<T>(issued, kAttentionOutput, rows * width), rows, width);
    const auto w = matrix(weight(issued, ParameterKind::kOWeight, layer), hidden, width);
    auto y = matrix(memory_.template write<T>(issued, kMiddle, rows * hidden), rows, hidden);
    at::addmm_out(y, x, o, w.t());
    if (model_.output_bias) {
        y.add_(matrix(weight(issued, ParameterKind::kOBias, layer), 1, hidden));
    }
}

template <class T>
void CpuBackend<T>::linear_gate_up(const Issued& issued) {
    const std::int64_t rows = issued.operation.rows, width = 2 * model_.ffn;
    const auto x = matrix(memory_.template read<T>(issued, kNormed, rows * model_.hidden), rows, model_.hidden);
    const auto w = matrix(weight(issued, ParameterKind::kGateWeight, issued.operation.id.layer), width, model_.hidden);
    auto y = matrix(memory_.template write<T>(issued, kGateUp, rows * width), rows, width);
    at::mm_out(y, x, w.t());
}

template <class T>
void CpuBackend<T>::linear_down(const Issued& issued) {
    const std::int64_t rows = issued.operation.rows, hidden = model_.hidden, layer = issued.operation.id.layer;
    const bool last = layer + 1 == model_.layers;
    const auto act = matrix(memory_.template read<T>(issued, kFfnActivation, rows * model_.ffn), rows, model_.ffn);
    const auto residual = matrix(memory_.template read<T>(issued, kMiddle, rows * hidden), rows, hidden);
    const auto w = matrix(weight(issued, ParameterKind::kDownWeight, layer), hidden, model_.ffn);
    auto y = matrix(memory_.template write<T>(issued, last ? kFinalHidden : kLayerInput, rows * hidden), rows, hidden);
    at::addmm_out(y, residual, act, w.t());
}

template <class T>
void CpuBackend<T>::linear_head(const Issued& issued) {
    const std::int64_t rows = issued.operation.rows;
    const auto x = matrix(memory_.template read<T>(issued, kTileNormed, rows * model_.hidden), rows, model_.hidden);
    const auto w = matrix(weight(issued, ParameterKind::kHead), model_.vocab, model_.hidden);
    auto y = matrix(memory_.template write<T>(issued, kLogits, rows * model_.vocab), rows, model_.vocab);
    at::mm_out(y, x, w.t());
}

// Cost (m, n, k) = (outputs, inputs, rows).
template <class T>
void CpuBackend<T>::linear_weight_gradient(const Issued& issued) {
    const LinearRegions buffers = linear_regions(issued.operation.id.kind);
    const auto& cost = std::get<schedule::GemmCost>(issued.operation.cost);
    const std::int64_t layer = buffers.in_layer ? issued.operation.id.layer : -1;
    const auto dy = matrix(memory_.template read<T>(issued, buffers.output_gradient, cost.k * cost.m), cost.k, cost.m);
    const auto x = matrix(memory_.template read<T>(issued, buffers.input, cost.k * cost.n), cost.k, cost.n);
    write_gradient(issued, buffers.weight, layer, [&](auto* dw) { add_product(matrix(dw, cost.m, cost.n), dy, x); });
    if (model_.output_bias && buffers.weight == ParameterKind::kOWeight) {
        auto d_bias = matrix(vector_gradient(issued, ParameterKind::kOBias, layer), 1, cost.m);
        d_bias.add_(dy.sum(0, true, d_bias.scalar_type()));
    }
}

// Cost (m, n, k) = (rows, inputs, outputs).
template <class T>
void CpuBackend<T>::linear_input_gradient(const Issued& issued) {
    const LinearRegions buffers = linear_regions(issued.operation.id.kind);
    const auto& cost = std::get<schedule::GemmCost>(issued.operation.cost);
    const auto dy = matrix(memory_.template read<T>(issued, buffers.output_gradient, cost.m * cost.k), cost.m, cost.k);
    const auto w =
        matrix(weight(issued, buffers.weight, buffers.in_layer ? issued.operation.id.layer : -1), cost.k, cost.n);
    auto dx = matrix(memory_.template write<T>(issued, buffers.input_gradient, cost.m * cost.n), cost.m, cost.n);
    at::mm_out(dx, dy, w);
}

#define OOMB_LINEAR(T)                                                  \
    template void CpuBackend<T>::linear_qkv(const Issued&);             \
    template void CpuBackend<T>::linear_output(const Issued&);          \
    template void CpuBackend<T>::linear_gate_up(const Issued&);         \
    template void CpuBackend<T>::linear_down(const Issued&);            \
    template void CpuBackend<T>::linear_head(const Issued&);            \
    template void CpuBackend<T>::linear_weight_gradient(const Issued&); \
    template void CpuBackend<T>::linear_input_gradient(const Issued&);
OOMB_LINEAR(BFloat16)
OOMB_LINEAR(float)
OOMB_LINEAR(double)

}  // namespace oomb::trainer
