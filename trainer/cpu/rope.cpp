// From the qkv buffer to rotated queries and K/V pages, and back.

#include "kernels/cpu/qkv.hpp"
#include "trainer/cpu/cpu_backend.hpp"

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
    const std::int64_t rows = issued.operation.rows, layer = issued.operation.id.layer;
    const std::int64_t width = model_.query_width();
    const bool queries = (issued.operation.id.part & schedule::kQueryPart) != 0;
    const bool keys = (issued.operation.id.part & schedule::kKeyPart) != 0;
    const auto parameter = [&](bool there, ParameterKind kind) {
        return there ? weight(issued, kind, layer) : nullptr;
    };
    kernels::cpu::qkv_forward<T>({.qkv = memory_.template read<T>(issued, kQkv, rows * (width + 2 * model_.kv_width())),
                                  .q_bias = parameter(model_.qkv_bias, ParameterKind::kQBias),
                                  .k_bias = parameter(model_.qkv_bias, ParameterKind::kKBias),
                                  .v_bias = parameter(model_.qkv_bias, ParameterKind::kVBias),
                                  .q_norm = parameter(model_.qk_norm, ParameterKind::kQNorm),
                                  .k_norm = parameter(model_.qk_norm, ParameterKind::kKNorm),
                                  .inverse_frequency = frequencies_.inverse_frequency.data(),
                                  .attention_factor = frequencies_.attention_factor,
                                  .query = queries ? memory_.template write<T>(issued, kQuery, rows * width) : nullptr,
                                  .kv = keys ? own_pages<T>(issued, PageClass::kKv) : paging::PageView<T>{},
                                  .rows = rows,
                                  .query_heads = model_.query_heads,
                                  .kv_heads = model_.kv_heads,
                                  .head_dim = model_.head_dim,
                                  .first_position = issued.operation.first_row,
                                  .eps = model_.rms_norm_eps});
}

// Gradients of rotated queries and of the chunk's own K/V pages become the gradient of the qkv buffer, in place.
template <class T>
void CpuBackend<T>::rope_backward(const Issued& issued) {
    const std::int64_t rows = issued.operation.rows, layer = issued.operation.id.layer;
    const std::int64_t width = model_.query_width();
    const auto parameter = [&](bool there, ParameterKind kind) {
        return there ? weight(issued, kind, layer) : nullptr;
    };
    const auto its_gradient = [&](bool there, ParameterKind kind) {
        return there ? gradient(issued, kind, layer) : nullptr;
    };
    kernels::cpu::qkv_backward<T>(
        {.qkv = memory_.template write<T>(issued, kQkv, rows * (width + 2 * model_.kv_width())),
         .q_bias = parameter(model_.qkv_bias, ParameterKind::kQBias),
         .k_bias = parameter(model_.qkv_bias, ParameterKind::kKBias),
         .v_bias = parameter(model_.qkv_bias, ParameterKind::kVBias),
         .q_norm = parameter(model_.qk_norm, ParameterKind::kQNorm),
         .k_norm = parameter(model_.qk_norm, ParameterKind::kKNorm),
         .inverse_frequency = frequencies_.inverse_frequency.data(),
         .attention_factor = frequencies_.attention_factor,
         .d_query = memory_.template read<T>(issued, kQueryGradient, rows * width),
         .d_kv = own_pages<const T>(issued, PageClass::kKvGradient),
         .d_q_bias = its_gradient(model_.qkv_bias, ParameterKind::kQBias),
         .d_k_bias = its_gradient(model_.qkv_bias, ParameterKind::kKBias),
         .d_v_bias = its_gradient(model_.qkv_bias, ParameterKind::kVBias),
         .d_q_norm = its_gradient(model_.qk_norm, ParameterKind::kQNorm),
         .d_k_norm = its_gradient(model_.qk_norm, ParameterKind::kKNorm),
         .rows = rows,
         .query_heads = model_.query_heads,
         .kv_heads = model_.kv_heads,
         .head_dim = model_.head_dim,
         .first_position = issued.operation.first_row,
         .eps = model_.rms_norm_eps});
}

#define OOMB_ROPE(T)                                  \
    template void CpuBackend<T>::rope(const Issued&); \
    template void CpuBackend<T>::rope_backward(const Issued&);
OOMB_ROPE(float)
OOMB_ROPE(double)

}  // namespace oomb::trainer
