// From the qkv buffer to rotated queries and K/V pages, and back.

#include "kernels/cpu/qkv.hpp"
#include "trainer/cpu/cpu_backend.hpp"
#include "trainer/executor/kv_gradients.hpp"
#include "trainer/executor/qkv_operands.hpp"

namespace oomb::trainer {

using enum schedule::RegionName;

template <class T>
void CpuBackend<T>::rope(const Issued& issued) {
    const std::int64_t rows = issued.operation.rows, width = model_.query_width();
    auto args = qkv_operands<kernels::QkvForward<T>>(
        model_, issued.operation, frequencies_.inverse_frequency.data(), frequencies_.attention_factor,
        [&](ParameterKind kind) { return weight(issued, kind, issued.operation.id.layer); });
    args.qkv = memory_.template read<T>(issued, kQkv, rows * (width + 2 * model_.kv_width()));
    if ((issued.operation.id.part & schedule::kQueryPart) != 0) {
        args.query = memory_.template write<T>(issued, kQuery, rows * width);
    }
    if ((issued.operation.id.part & schedule::kKeyPart) != 0) {
        args.kv = page_view<T>(issued, 0, issued.operation.first_row, rows);
    }
    kernels::cpu::qkv_forward<T>(args);
}

// Gradients of rotated queries and of the chunk's own K/V pages become the gradient of the qkv buffer, in place.
template <class T>
void CpuBackend<T>::rope_backward(const Issued& issued) {
    const std::int64_t rows = issued.operation.rows, width = model_.query_width();
    auto args = qkv_operands<kernels::QkvBackward<T>>(
        model_, issued.operation, frequencies_.inverse_frequency.data(), frequencies_.attention_factor,
        [&](ParameterKind kind) { return weight(issued, kind, issued.operation.id.layer); });
    set_qkv_gradients(args, model_,
                      [&](ParameterKind kind) { return vector_gradient(issued, kind, issued.operation.id.layer); });
    const std::int64_t elements = rows * (width + 2 * model_.kv_width());
    args.qkv = memory_.template write<T>(issued, kQkv, elements);
    args.d_query = memory_.template read<A>(issued, kQueryGradient, rows * width);
    args.d_kv = page_view<const A>(issued, 0, issued.operation.first_row, rows);
    kernels::cpu::qkv_backward<T>(args);
    if (this->on_kv_gradients) {
        tell_kv_gradients<T>(*this, model_, issued.operation, {args.qkv, static_cast<std::size_t>(elements)});
    }
}

#define OOMB_ROPE(T)                                  \
    template void CpuBackend<T>::rope(const Issued&); \
    template void CpuBackend<T>::rope_backward(const Issued&);
OOMB_ROPE(BFloat16)
OOMB_ROPE(float)
OOMB_ROPE(double)

}  // namespace oomb::trainer
