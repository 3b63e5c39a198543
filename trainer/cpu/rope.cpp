// From the qkv buffer to rotated queries and K/V pages, and back.

#include "kernels/cpu/qkv.hpp"
#include "trainer/cpu/cpu_backend.hpp"
#include "trainer/executor/qkv_operands.hpp"

namespace oomb::trainer {

using schedule::Access;
using enum schedule::RegionName;

// The operation's K/V or gradient pages as rows from its own first position on.
template <class T>
template <class E>
paging::PageView<E> CpuBackend<T>::own_pages(const Issued& issued, PageClass page_class) {
    constexpr Access kAccess = std::is_const_v<E> ? Access::kRead : Access::kWrite;
    const auto& frames = issued.grants[0].frames;
    for (const std::int32_t frame : frames) {
        for (std::size_t plane = 0; plane < 2; ++plane) {
            memory_.frame(issued, Tier::kHbm, page_class, plane, frame, kAccess);
        }
    }
    return {.k_slab = reinterpret_cast<E*>(memory_.slab(Tier::kHbm, page_class, 0)),
            .v_slab = reinterpret_cast<E*>(memory_.slab(Tier::kHbm, page_class, 1)),
            .frames = frames.data(),
            .page_tokens = plan_.run.page_tokens,
            .kv_heads = model_.kv_heads,
            .head_dim = model_.head_dim,
            .first_token = issued.operation.first_row,
            .tokens = issued.operation.rows};
}

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
        args.kv = own_pages<T>(issued, PageClass::kKv);
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
                      [&](ParameterKind kind) { return gradient(issued, kind, issued.operation.id.layer); });
    args.qkv = memory_.template write<T>(issued, kQkv, rows * (width + 2 * model_.kv_width()));
    args.d_query = memory_.template read<T>(issued, kQueryGradient, rows * width);
    args.d_kv = own_pages<const T>(issued, PageClass::kKvGradient);
    kernels::cpu::qkv_backward<T>(args);
}

#define OOMB_ROPE(T)                                           \
    template void CpuBackend<T>::rope(const Issued&);          \
    template void CpuBackend<T>::rope_backward(const Issued&); \
    template paging::PageView<const T> CpuBackend<T>::own_pages<const T>(const Issued&, PageClass);
OOMB_ROPE(float)
OOMB_ROPE(double)

}  // namespace oomb::trainer
