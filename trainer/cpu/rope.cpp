// From the qkv buffer to rotated queries and K/V pages, and back.

#include <algorithm>

#include "kernels/cpu/rms_norm.hpp"
#include "kernels/cpu/rope.hpp"
#include "trainer/cpu/cpu_backend.hpp"

namespace oomb::trainer {

using schedule::Access;
using enum schedule::RegionName;

namespace {

// Columns [first, first + width) of rows of `stride` elements, to a dense buffer; with a bias where there is one.
template <class T>
void gather_columns(const T* from, std::int64_t stride, std::int64_t width, std::int64_t rows, const T* bias, T* to) {
    for (std::int64_t row = 0; row < rows; ++row) {
        std::copy_n(from + row * stride, width, to + row * width);
        for (std::int64_t i = 0; bias != nullptr && i < width; ++i) {
            to[row * width + i] += bias[i];
        }
    }
}

template <class T>
void scatter_columns(const T* from, std::int64_t rows, std::int64_t width, T* to, std::int64_t stride) {
    for (std::int64_t row = 0; row < rows; ++row) {
        std::copy_n(from + row * width, width, to + row * stride);
    }
}

// sums += column sums, rows in ascending order.
template <class T>
void add_column_sums(const T* rows, std::int64_t count, std::int64_t width, T* sums) {
    for (std::int64_t row = 0; row < count; ++row) {
        for (std::int64_t i = 0; i < width; ++i) {
            sums[i] += rows[row * width + i];
        }
    }
}

}  // namespace

template <class T>
void CpuBackend<T>::rotate(T* rows, std::int64_t count, std::int64_t heads, std::int64_t first_position,
                           bool backward) {
    const kernels::RopeRotation<T> rotation{.x = rows,
                                            .inverse_frequency = frequencies_.inverse_frequency.data(),
                                            .attention_factor = frequencies_.attention_factor,
                                            .rows = count,
                                            .heads = heads,
                                            .head_dim = model_.head_dim,
                                            .first_position = first_position};
    backward ? kernels::cpu::rope_backward<T>(rotation) : kernels::cpu::rope_forward<T>(rotation);
}

template <class T>
void CpuBackend<T>::head_norm(T* rows, std::int64_t count, std::int64_t heads, const T* norm_weight) {
    kernels::cpu::rms_norm_forward<T>({.x = rows,
                                       .weight = norm_weight,
                                       .y = rows,
                                       .rows = count * heads,
                                       .width = model_.head_dim,
                                       .eps = model_.rms_norm_eps});
}

template <class T>
void CpuBackend<T>::head_norm_backward(T* in_out, const T* input, std::int64_t count, std::int64_t heads,
                                       const T* norm_weight, T* weight_gradient) {
    kernels::cpu::rms_norm_backward<T>({.dy = in_out,
                                        .x = input,
                                        .weight = norm_weight,
                                        .dx = in_out,
                                        .d_weight = weight_gradient,
                                        .rows = count * heads,
                                        .width = model_.head_dim,
                                        .eps = model_.rms_norm_eps});
}

template <class T>
void CpuBackend<T>::rope(const Issued& issued) {
    if ((issued.operation.id.part & schedule::kQueryPart) != 0) {
        rope_query(issued);
    }
    if ((issued.operation.id.part & schedule::kKeyPart) != 0) {
        rope_keys_to_pages(issued);
    }
}

template <class T>
void CpuBackend<T>::rope_query(const Issued& issued) {
    const std::int64_t rows = issued.operation.rows, layer = issued.operation.id.layer;
    const std::int64_t width = model_.query_width(), stride = width + 2 * model_.kv_width();
    const T* linear = memory_.template read<T>(issued, kQkv, rows * stride);
    T* query = memory_.template write<T>(issued, kQuery, rows * width);
    gather_columns(linear, stride, width, rows,
                   model_.qkv_bias ? weight(issued, ParameterKind::kQBias, layer) : nullptr, query);
    if (model_.qk_norm) {
        head_norm(query, rows, model_.query_heads, weight(issued, ParameterKind::kQNorm, layer));
    }
    rotate(query, rows, model_.query_heads, issued.operation.first_row, false);
}

template <class T>
void CpuBackend<T>::rope_keys_to_pages(const Issued& issued) {
    const std::int64_t rows = issued.operation.rows, layer = issued.operation.id.layer;
    const std::int64_t width = model_.kv_width(), stride = model_.query_width() + 2 * width;
    const T* linear = memory_.template read<T>(issued, kQkv, rows * stride) + model_.query_width();
    const paging::Grant& grant = issued.grants[0];
    const auto bias = [&](ParameterKind kind) { return model_.qkv_bias ? weight(issued, kind, layer) : nullptr; };
    for (std::size_t page = 0; page < grant.frames.size(); ++page) {
        const auto plane = [&](std::size_t which) {
            return reinterpret_cast<T*>(
                memory_.frame(issued, Tier::kHbm, PageClass::kKv, which, grant.frames[page], Access::kWrite));
        };
        const std::int64_t first = static_cast<std::int64_t>(page) * plan_.run.page_tokens;
        const std::int64_t count = std::min(plan_.run.page_tokens, rows - first);
        T* keys = plane(0);
        gather_columns(linear + first * stride, stride, width, count, bias(ParameterKind::kKBias), keys);
        if (model_.qk_norm) {
            head_norm(keys, count, model_.kv_heads, weight(issued, ParameterKind::kKNorm, layer));
        }
        rotate(keys, count, model_.kv_heads, issued.operation.first_row + first, false);
        gather_columns(linear + first * stride + width, stride, width, count, bias(ParameterKind::kVBias), plane(1));
    }
}

// Gradients of rotated queries and of the chunk's own K/V pages become the gradient of the qkv buffer, in place. The
// query buffer and, once used up, the query gradient serve as dense working space.
template <class T>
void CpuBackend<T>::rope_backward(const Issued& issued) {
    const std::int64_t rows = issued.operation.rows, layer = issued.operation.id.layer;
    const std::int64_t query_width = model_.query_width(), kv_width = model_.kv_width();
    const std::int64_t stride = query_width + 2 * kv_width, first_row = issued.operation.first_row;
    T* linear = memory_.template write<T>(issued, kQkv, rows * stride);
    T* dense = memory_.template write<T>(issued, kQueryGradient, rows * query_width);
    T* before_norm = memory_.template write<T>(issued, kQuery, rows * query_width);
    const auto bias = [&](ParameterKind kind) { return model_.qkv_bias ? weight(issued, kind, layer) : nullptr; };

    const auto finish = [&](std::int64_t column, std::int64_t width, ParameterKind bias_kind) {
        scatter_columns(dense, rows, width, linear + column, stride);
        if (model_.qkv_bias) {
            add_column_sums(dense, rows, width, gradient(issued, bias_kind, layer));
        }
    };
    const auto unrotate = [&](std::int64_t column, std::int64_t heads, ParameterKind norm, ParameterKind bias_kind) {
        const std::int64_t width = heads * model_.head_dim;
        rotate(dense, rows, heads, first_row, true);
        if (model_.qk_norm) {
            gather_columns(linear + column, stride, width, rows, bias(bias_kind), before_norm);
            head_norm_backward(dense, before_norm, rows, heads, weight(issued, norm, layer),
                               gradient(issued, norm, layer));
        }
        finish(column, width, bias_kind);
    };
    const auto gather_pages = [&](std::size_t plane) {
        for (std::size_t page = 0; page < issued.grants[0].frames.size(); ++page) {
            const std::int64_t first = static_cast<std::int64_t>(page) * plan_.run.page_tokens;
            const std::int64_t count = std::min(plan_.run.page_tokens, rows - first);
            const auto* from = reinterpret_cast<const T*>(memory_.frame(
                issued, Tier::kHbm, PageClass::kKvGradient, plane, issued.grants[0].frames[page], Access::kRead));
            std::copy_n(from, count * kv_width, dense + first * kv_width);
        }
    };
    unrotate(0, model_.query_heads, ParameterKind::kQNorm, ParameterKind::kQBias);
    gather_pages(0);
    unrotate(query_width, model_.kv_heads, ParameterKind::kKNorm, ParameterKind::kKBias);
    gather_pages(1);
    finish(query_width + kv_width, kv_width, ParameterKind::kVBias);
}

#define OOMB_ROPE(T)                                                                                         \
    template void CpuBackend<T>::rotate(T*, std::int64_t, std::int64_t, std::int64_t, bool);                 \
    template void CpuBackend<T>::head_norm(T*, std::int64_t, std::int64_t, const T*);                        \
    template void CpuBackend<T>::head_norm_backward(T*, const T*, std::int64_t, std::int64_t, const T*, T*); \
    template void CpuBackend<T>::rope(const Issued&);                                                        \
    template void CpuBackend<T>::rope_query(const Issued&);                                                  \
    template void CpuBackend<T>::rope_keys_to_pages(const Issued&);                                          \
    template void CpuBackend<T>::rope_backward(const Issued&);
OOMB_ROPE(float)
OOMB_ROPE(double)

}  // namespace oomb::trainer
