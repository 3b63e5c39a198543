// Matrix products of the CUDA backend. A weight is [outputs, inputs]: y = x W^T, dx = dy W, dW += dy^T x.

#include "kernels/cuda/accumulate.hpp"
#include "kernels/cuda/convert.hpp"
#include "trainer/cuda/cuda_backend.hpp"
#include "trainer/executor/operand_regions.hpp"

namespace oomb::trainer {

using enum schedule::RegionName;

namespace {

template <class T>
constexpr DType kTypeOf = std::is_same_v<T, float> ? DType::kF32 : DType::kBF16;

// y [rows, outputs] = x [rows, inputs] W^T, all dense.
template <class T>
Product output_product(std::int64_t rows, std::int64_t outputs, std::int64_t inputs, const T* x, const T* w, T* y,
                       const T* addend = nullptr) {
    return {.form = ProductForm::kOutput,
            .m = rows,
            .n = outputs,
            .k = inputs,
            .a = {x, inputs},
            .b = {w, inputs},
            .addend = addend,
            .d = y,
            .d_stride = outputs,
            .input = kTypeOf<T>,
            .output = kTypeOf<T>};
}

}  // namespace

// The columns of the qkv buffer that `part` names, each of the three as a product of its own: a library's bits may
// change with the number of columns, and what is computed alone must equal what is computed beside the others.
template <class T>
void CudaBackend<T>::linear_qkv(const Issued& issued) {
    const std::int64_t rows = issued.operation.rows, layer = issued.operation.id.layer, hidden = model_.hidden;
    const std::int64_t query = model_.query_width(), kv = model_.kv_width(), stride = query + 2 * kv;
    const T* x = memory_->read<T>(issued, kNormed, rows * hidden);
    const T* weights = weight(issued, ParameterKind::kQWeight, layer);
    T* output = memory_->write<T>(issued, kQkv, rows * stride);
    const auto multiply = [&](std::uint32_t part, std::int64_t first, std::int64_t columns) {
        if ((issued.operation.id.part & part) != 0) {
            Product product = output_product(rows, columns, hidden, x, weights + first * hidden, output + first);
            product.d_stride = stride;
            products_->multiply(product);
        }
    };
    multiply(schedule::kQueryPart, 0, query);
    multiply(schedule::kKeyPart, query, kv);
    multiply(schedule::kValuePart, query + kv, kv);
}

template <class T>
void CudaBackend<T>::linear_output(const Issued& issued) {
    const std::int64_t rows = issued.operation.rows, layer = issued.operation.id.layer;
    const std::int64_t hidden = model_.hidden, width = model_.query_width();
    const T* x = memory_->read<T>(issued, kLayerInput, rows * hidden);
    const T* o = memory_->read<T>(issued, kAttentionOutput, rows * width);
    T* y = memory_->write<T>(issued, kMiddle, rows * hidden);
    products_->multiply(output_product(rows, hidden, width, o, weight(issued, ParameterKind::kOWeight, layer), y, x));
    if (model_.output_bias) {
        kernels::cuda::add_bias<T>(y, weight(issued, ParameterKind::kOBias, layer), rows, hidden, stream());
    }
}

template <class T>
void CudaBackend<T>::linear_gate_up(const Issued& issued) {
    const std::int64_t rows = issued.operation.rows, hidden = model_.hidden, width = 2 * model_.ffn;
    products_->multiply(output_product(rows, width, hidden, memory_->read<T>(issued, kNormed, rows * hidden),
                                       weight(issued, ParameterKind::kGateWeight, issued.operation.id.layer),
                                       memory_->write<T>(issued, kGateUp, rows * width)));
}

template <class T>
void CudaBackend<T>::linear_down(const Issued& issued) {
    const std::int64_t rows = issued.operation.rows, hidden = model_.hidden, layer = issued.operation.id.layer;
    const bool last = layer + 1 == model_.layers;
    products_->multiply(output_product(rows, hidden, model_.ffn,
                                       memory_->read<T>(issued, kFfnActivation, rows * model_.ffn),
                                       weight(issued, ParameterKind::kDownWeight, layer),
                                       memory_->write<T>(issued, last ? kFinalHidden : kLayerInput, rows * hidden),
                                       memory_->read<T>(issued, kMiddle, rows * hidden)));
}

template <class T>
void CudaBackend<T>::linear_head(const Issued& issued) {
    const std::int64_t rows = issued.operation.rows;
    products_->multiply(
        output_product(rows, model_.vocab, model_.hidden, memory_->read<T>(issued, kTileNormed, rows * model_.hidden),
                       weight(issued, ParameterKind::kHead), memory_->write<T>(issued, kLogits, rows * model_.vocab)));
}

// Cost (m, n, k) = (outputs, inputs, rows).
template <class T>
void CudaBackend<T>::linear_weight_gradient(const Issued& issued) {
    const LinearRegions regions = linear_regions(issued.operation.id.kind);
    const auto& cost = std::get<schedule::GemmCost>(issued.operation.cost);
    const std::int64_t layer = regions.in_layer ? issued.operation.id.layer : -1;
    const T* dy = memory_->read<T>(issued, regions.output_gradient, cost.k * cost.m);
    const T* x = memory_->read<T>(issued, regions.input, cost.k * cost.n);
    write_gradient(issued, regions.weight, layer, [&]<class G>(G* dw) {
        products_->multiply({.form = ProductForm::kWeightGradient,
                             .m = cost.m,
                             .n = cost.n,
                             .k = cost.k,
                             .a = {dy, cost.m},
                             .b = {x, cost.n},
                             .addend = dw,
                             .d = dw,
                             .d_stride = cost.n,
                             .input = kTypeOf<T>,
                             .output = kTypeOf<G>});
    });
    if (model_.output_bias && regions.weight == ParameterKind::kOWeight) {
        kernels::cuda::add_column_sums<T>(dy, cost.k, cost.m, vector_gradient(issued, ParameterKind::kOBias, layer),
                                          workspace(workspace_.library), stream());
    }
}

// Cost (m, n, k) = (rows, inputs, outputs).
template <class T>
void CudaBackend<T>::linear_input_gradient(const Issued& issued) {
    const LinearRegions regions = linear_regions(issued.operation.id.kind);
    const auto& cost = std::get<schedule::GemmCost>(issued.operation.cost);
    products_->multiply(
        {.form = ProductForm::kInputGradient,
         .m = cost.m,
         .n = cost.n,
         .k = cost.k,
         .a = {memory_->read<T>(issued, regions.output_gradient, cost.m * cost.k), cost.k},
         .b = {weight(issued, regions.weight, regions.in_layer ? issued.operation.id.layer : -1), cost.n},
         .d = memory_->write<T>(issued, regions.input_gradient, cost.m * cost.n),
         .d_stride = cost.n,
         .input = kTypeOf<T>,
         .output = kTypeOf<T>});
}

#define OOMB_LINEAR(T)                                                   \
    template void CudaBackend<T>::linear_qkv(const Issued&);             \
    template void CudaBackend<T>::linear_output(const Issued&);          \
    template void CudaBackend<T>::linear_gate_up(const Issued&);         \
    template void CudaBackend<T>::linear_down(const Issued&);            \
    template void CudaBackend<T>::linear_head(const Issued&);            \
    template void CudaBackend<T>::linear_weight_gradient(const Issued&); \
    template void CudaBackend<T>::linear_input_gradient(const Issued&);
OOMB_LINEAR(BFloat16)
OOMB_LINEAR(float)

}  // namespace oomb::trainer
