// From the qkv buffer through attention and back, on the CUDA backend: cuDNN over contiguous windows, or our plain
// kernels on pages, which also take what a sliding window masks; or in place, by our kernels for sm_90a
// (own_attention.cpp).

#include "kernels/cuda/attention.hpp"

#include "kernels/cuda/accumulate.hpp"
#include "kernels/cuda/page_list.hpp"
#include "kernels/cuda/pages.hpp"
#include "kernels/cuda/qkv.hpp"
#include "runtime/core/error.hpp"
#include "runtime/device/check.hpp"
#include "trainer/cuda/attention_operands.hpp"
#include "trainer/cuda/cuda_backend.hpp"
#include "trainer/executor/kv_gradients.hpp"
#include "trainer/executor/qkv_operands.hpp"

namespace oomb::trainer {

using schedule::Access;
using schedule::AttentionCost;
using enum schedule::RegionName;

template <class T>
struct CudaBackend<T>::Window {
    const T *k = nullptr, *v = nullptr;  // [keys, kv_heads, head_dim]
};

namespace {

AttentionWindow window_of(const AttentionCost& cost) {
    return {cost.queries,  cost.keys,     cost.query_heads,
            cost.kv_heads, cost.head_dim, cost.first_key == cost.first_query};
}

bool in_order(const std::vector<std::int32_t>& frames) {
    for (std::size_t i = 1; i < frames.size(); ++i) {
        if (frames[i] != frames[0] + static_cast<std::int32_t>(i)) {
            return false;
        }
    }
    return !frames.empty();
}

}  // namespace

// The workspace's list of frames of the class.
template <class T>
std::int32_t* CudaBackend<T>::frame_list(PageClass page_class) const {
    const bool gradient = page_class == PageClass::kKvGradient;
    return reinterpret_cast<std::int32_t*>(workspace(gradient ? workspace_.gradient_frames : workspace_.frames));
}

template <class T>
void CudaBackend<T>::send_frames(const Issued& issued, PageClass page_class, std::span<const std::int32_t> frames,
                                 std::span<const std::uint8_t> first_touch, Access access) {
    const std::int64_t room =
        (workspace_.gradient_frames - workspace_.frames) / static_cast<std::int64_t>(sizeof(std::int32_t));
    require(std::ssize(frames) <= room, "{}: {} frames, {} are planned", to_text(issued.operation.id), frames.size(),
            room);
    for (const std::int32_t frame : frames) {
        for (std::size_t plane = 0; plane < 2; ++plane) {
            memory_->frame(issued, Tier::kHbm, page_class, plane, frame, access);
        }
    }
    kernels::cuda::write_page_list(frames, first_touch, frame_list(page_class),
                                   reinterpret_cast<std::uint8_t*>(workspace(workspace_.first_touch)), stream());
}

template <class T>
template <class E>
paging::PageView<E> CudaBackend<T>::view_of(PageClass page_class, std::int64_t tokens, std::int64_t first) const {
    return {.k_slab = reinterpret_cast<E*>(memory_->slab(Tier::kHbm, page_class, 0)),
            .v_slab = reinterpret_cast<E*>(memory_->slab(Tier::kHbm, page_class, 1)),
            .frames = frame_list(page_class),
            .page_tokens = plan_.run.page_tokens,
            .kv_heads = model_.kv_heads,
            .head_dim = model_.head_dim,
            .first_token = first,
            .tokens = tokens};
}

template <class T>
template <class E>
paging::PageView<E> CudaBackend<T>::page_view(const Issued& issued, std::size_t request, std::int64_t tokens,
                                              std::int64_t first, Access access) {
    const paging::Grant& grant = issued.grants[request];
    send_frames(issued, grant.page_class, grant.frames, grant.first_touch, access);
    return view_of<E>(grant.page_class, tokens, first);
}

template <class T>
template <class Args>
Args CudaBackend<T>::qkv_operands(const Issued& issued) {
    return trainer::qkv_operands<Args>(
        model_, issued.operation, reinterpret_cast<float*>(workspace(workspace_.frequencies)),
        frequencies_.attention_factor,
        [&](ParameterKind kind) { return weight(issued, kind, issued.operation.id.layer); });
}

template <class T>
void CudaBackend<T>::rope(const Issued& issued) {
    const std::int64_t rows = issued.operation.rows, width = model_.query_width();
    auto args = qkv_operands<kernels::QkvForward<T>>(issued);
    args.qkv = memory_->read<T>(issued, kQkv, rows * (width + 2 * model_.kv_width()));
    if ((issued.operation.id.part & schedule::kQueryPart) != 0) {
        args.query = memory_->write<T>(issued, kQuery, rows * width);
    }
    if ((issued.operation.id.part & schedule::kKeyPart) != 0) {
        args.kv = page_view<T>(issued, 0, rows, issued.operation.first_row, Access::kWrite);
    }
    kernels::cuda::qkv_forward<T>(args, stream());
}

// Gradients of rotated queries and of the chunk's own K/V pages become the gradient of the qkv buffer, in place.
template <class T>
void CudaBackend<T>::rope_backward(const Issued& issued) {
    const std::int64_t rows = issued.operation.rows, width = model_.query_width();
    auto args = qkv_operands<kernels::QkvBackward<T>>(issued);
    set_qkv_gradients(args, model_,
                      [&](ParameterKind kind) { return vector_gradient(issued, kind, issued.operation.id.layer); });
    const std::int64_t elements = rows * (width + 2 * model_.kv_width());
    args.qkv = memory_->write<T>(issued, kQkv, elements);
    args.d_query = memory_->read<A>(issued, kQueryGradient, rows * width);
    args.d_kv = page_view<const A>(issued, 0, rows, issued.operation.first_row, Access::kRead);
    kernels::cuda::qkv_backward<T>(args, workspace(workspace_.library), stream());
    if (this->on_kv_gradients) {
        std::vector<T> qkv(elements);
        OOMB_CUDA(cudaMemcpyAsync(qkv.data(), args.qkv, elements * sizeof(T), cudaMemcpyDeviceToHost, stream()));
        OOMB_CUDA(cudaStreamSynchronize(stream()));
        tell_kv_gradients<T>(*this, model_, issued.operation, qkv);
    }
}

template <class T>
bool CudaBackend<T>::library_supports(const AttentionWindow& window, bool backward) {
    if (!library_attention_) {
        return false;
    }
    const std::int64_t needed =
        backward ? library_attention_->prepare_backward(window) : library_attention_->prepare_forward(window);
    const std::int64_t planned = backward ? scratch_.backward_library_bytes : scratch_.forward_library_bytes;
    require(needed <= planned, "cuDNN wants {} bytes of workspace for {} queries and {} keys, {} are planned", needed,
            window.rows, window.keys, planned);
    return needed >= 0;
}

template <class T>
void CudaBackend<T>::attention(const Issued& issued) {
    const auto& cost = std::get<AttentionCost>(issued.operation.cost);
    if (cost.listed || cost.own_kernels) {
        attend_in_place(issued);
        return;
    }
    const AttentionWindow window = window_of(cost);
    if constexpr (std::is_same_v<T, BFloat16>) {
        if (cost.sliding_window == 0 && library_supports(window, false)) {
            attend_by_library(issued, window);
            return;
        }
    }
    attend_by_kernel(issued);
}

template <class T>
void CudaBackend<T>::attention_backward(const Issued& issued) {
    const auto& cost = std::get<AttentionCost>(issued.operation.cost);
    if (cost.listed || cost.own_kernels) {
        backward_in_place(issued);
        return;
    }
    const AttentionWindow window = window_of(cost);
    if constexpr (std::is_same_v<T, BFloat16>) {
        if (cost.sliding_window == 0 && library_supports(window, true)) {
            backward_by_library(issued, window);
            return;
        }
    }
    backward_by_kernel(issued);
}

// K and V of the window's pages side by side: where they lie if their frames are in order, else gathered.
template <class T>
typename CudaBackend<T>::Window CudaBackend<T>::contiguous_window(const Issued& issued, std::byte* scratch) {
    const auto& cost = std::get<AttentionCost>(issued.operation.cost);
    const paging::Grant& grant = issued.grants[0];
    if (in_order(grant.frames)) {
        const auto plane = [&](std::size_t which) {
            for (const std::int32_t frame : grant.frames) {
                memory_->frame(issued, Tier::kHbm, PageClass::kKv, which, frame, Access::kRead);
            }
            return reinterpret_cast<const T*>(
                memory_->frame(issued, Tier::kHbm, PageClass::kKv, which, grant.frames[0], Access::kRead));
        };
        return {plane(0), plane(1)};
    }
    auto* k = reinterpret_cast<T*>(scratch + scratch_.keys);
    auto* v = reinterpret_cast<T*>(scratch + scratch_.values);
    kernels::cuda::gather_pages<T>(
        {.kv = page_view<const T>(issued, 0, cost.keys, cost.first_key, Access::kRead), .k = k, .v = v}, stream());
    return {k, v};
}

template <class T>
void CudaBackend<T>::attend_by_library(const Issued& issued, const AttentionWindow& window) {
    const bool whole = issued.operation.id.part == 0;
    const std::int64_t elements = window.rows * model_.query_width();
    std::byte* scratch = memory_->write<std::byte>(issued, kAttentionScratch, scratch_.total_bytes);
    const Window kv = contiguous_window(issued, scratch);
    T* o = whole ? reinterpret_cast<T*>(scratch + scratch_.output) : memory_->write<T>(issued, kOutputPart, elements);
    A* lse = memory_->write<A>(issued, whole ? kLogSumExp : kLogSumExpPart, window.rows * window.query_heads);
    library_attention_->forward(
        window, {.q = memory_->read<T>(issued, kQuery, elements), .k = kv.k, .v = kv.v, .o = o, .log_sum_exp = lse},
        scratch + scratch_.forward_library);
    if (whole) {
        convert_on_device<T, A>(o, memory_->write<A>(issued, kOutputSum, elements), elements, stream());
    }
}

template <class T>
void CudaBackend<T>::attend_by_kernel(const Issued& issued) {
    const auto& cost = std::get<AttentionCost>(issued.operation.cost);
    const bool whole = issued.operation.id.part == 0;
    const std::int64_t elements = cost.queries * model_.query_width();
    std::byte* scratch = memory_->write<std::byte>(issued, kAttentionScratch, scratch_.total_bytes);
    A* o = whole ? memory_->write<A>(issued, kOutputSum, elements) : reinterpret_cast<A*>(scratch + scratch_.output);
    kernels::cuda::attention_forward<T>(
        {.q = memory_->read<T>(issued, kQuery, elements),
         .kv = page_view<const T>(issued, 0, cost.keys, cost.first_key, Access::kRead),
         .o_part = o,
         .lse_part = memory_->write<A>(issued, whole ? kLogSumExp : kLogSumExpPart, cost.queries * cost.query_heads),
         .tokens = cost.queries,
         .query_heads = cost.query_heads,
         .scale = scale_of(cost),
         .mask = {.first_query = cost.first_query, .sliding_window = cost.sliding_window}},
        stream());
    if (!whole) {
        convert_on_device<A, T>(o, memory_->write<T>(issued, kOutputPart, elements), elements, stream());
    }
}

template <class T>
void CudaBackend<T>::backward_by_library(const Issued& issued, const AttentionWindow& window) {
    const auto& cost = std::get<AttentionCost>(issued.operation.cost);
    const bool first = issued.operation.id.part == 0;
    const std::int64_t elements = window.rows * model_.query_width(), sums = window.rows * window.query_heads;
    std::byte* scratch = memory_->write<std::byte>(issued, kAttentionScratch, scratch_.total_bytes);
    const Window kv = contiguous_window(issued, scratch);
    auto* lse = reinterpret_cast<A*>(scratch + scratch_.log_sum_exp);
    kernels::cuda::heads_first<A>(memory_->read<A>(issued, kLogSumExp, sums), lse, window.rows, window.query_heads,
                                  stream());
    A* dq_sum = memory_->write<A>(issued, kQueryGradient, elements);
    auto* dq = reinterpret_cast<T*>(scratch + scratch_.query_gradients);
    auto* dk = reinterpret_cast<T*>(scratch + scratch_.key_gradients);
    auto* dv = reinterpret_cast<T*>(scratch + scratch_.value_gradients);
    library_attention_->backward(window,
                                 {.q = memory_->read<T>(issued, kQuery, elements),
                                  .k = kv.k,
                                  .v = kv.v,
                                  .o = memory_->read<T>(issued, kAttentionOutput, elements),
                                  .d_o = memory_->read<T>(issued, kOutputGradient, elements),
                                  .log_sum_exp = lse,
                                  .dq = dq,
                                  .dk = dk,
                                  .dv = dv},
                                 scratch + scratch_.backward_library);
    if (first) {
        convert_on_device<T, A>(dq, dq_sum, elements, stream());
    } else {
        kernels::cuda::accumulate<T>(dq, dq_sum, elements, stream());
    }
    kernels::cuda::add_to_gradient_pages<T>(
        {.dk = dk,
         .dv = dv,
         .d_kv = page_view<A>(issued, 1, cost.keys, cost.first_key, Access::kWrite),
         .first_touch = reinterpret_cast<std::uint8_t*>(workspace(workspace_.first_touch))},
        stream());
}

template <class T>
void CudaBackend<T>::backward_by_kernel(const Issued& issued) {
    const auto& cost = std::get<AttentionCost>(issued.operation.cost);
    const std::int64_t elements = cost.queries * model_.query_width(), sums = cost.queries * cost.query_heads;
    A* dq = memory_->write<A>(issued, kQueryGradient, elements);
    if (issued.operation.id.part == 0) {
        OOMB_CUDA(cudaMemsetAsync(dq, 0, elements * sizeof(A), stream()));
    }
    kernels::cuda::attention_backward<T>(
        {.q = memory_->read<T>(issued, kQuery, elements),
         .d_o = memory_->read<T>(issued, kOutputGradient, elements),
         .lse = memory_->read<A>(issued, kLogSumExp, sums),
         .delta = memory_->read<A>(issued, kDelta, sums),
         .kv = page_view<const T>(issued, 0, cost.keys, cost.first_key, Access::kRead),
         .dq = dq,
         .d_kv = page_view<A>(issued, 1, cost.keys, cost.first_key, Access::kWrite),
         .first_touch = reinterpret_cast<std::uint8_t*>(workspace(workspace_.first_touch)),
         .tokens = cost.queries,
         .query_heads = cost.query_heads,
         .scale = scale_of(cost),
         .mask = {.first_query = cost.first_query, .sliding_window = cost.sliding_window}},
        stream());
}

template <class T>
void CudaBackend<T>::merge(const Issued& issued) {
    const std::int64_t rows = issued.operation.rows, heads = model_.query_heads, width = model_.query_width();
    const std::int64_t before = row_in_chunk(issued), end = before + rows;
    kernels::cuda::attention_merge<A, T>({.o = memory_->write<A>(issued, kOutputSum, end * width) + before * width,
                                          .lse = memory_->write<A>(issued, kLogSumExp, end * heads) + before * heads,
                                          .o_part = memory_->read<T>(issued, kOutputPart, rows * width),
                                          .lse_part = memory_->read<A>(issued, kLogSumExpPart, rows * heads),
                                          .tokens = rows,
                                          .heads = heads,
                                          .head_dim = model_.head_dim},
                                         stream());
}

template <class T>
void CudaBackend<T>::finish_attention(const Issued& issued) {
    const std::int64_t elements = issued.operation.rows * model_.query_width();
    convert_on_device<A, T>(memory_->read<A>(issued, kOutputSum, elements),
                            memory_->write<T>(issued, kAttentionOutput, elements), elements, stream());
}

template <class T>
void CudaBackend<T>::attention_delta(const Issued& issued) {
    const std::int64_t rows = issued.operation.rows, heads = model_.query_heads, width = model_.query_width();
    kernels::cuda::attention_delta<T>({.d_o = memory_->read<T>(issued, kOutputGradient, rows * width),
                                       .o = memory_->read<T>(issued, kAttentionOutput, rows * width),
                                       .delta = memory_->write<A>(issued, kDelta, rows * heads),
                                       .tokens = rows,
                                       .heads = heads,
                                       .head_dim = model_.head_dim},
                                      stream());
}

#define OOMB_ATTENTION(T)                                                                                             \
    template std::int32_t* CudaBackend<T>::frame_list(PageClass) const;                                               \
    template void CudaBackend<T>::send_frames(const Issued&, PageClass, std::span<const std::int32_t>,                \
                                              std::span<const std::uint8_t>, Access);                                 \
    template paging::PageView<const T> CudaBackend<T>::view_of(PageClass, std::int64_t, std::int64_t) const;          \
    template paging::PageView<kernels::Accumulator<T>> CudaBackend<T>::view_of(PageClass, std::int64_t, std::int64_t) \
        const;                                                                                                        \
    template paging::PageView<const T> CudaBackend<T>::page_view(const Issued&, std::size_t, std::int64_t,            \
                                                                 std::int64_t, Access);                               \
    template void CudaBackend<T>::rope(const Issued&);                                                                \
    template void CudaBackend<T>::rope_backward(const Issued&);                                                       \
    template void CudaBackend<T>::attention(const Issued&);                                                           \
    template void CudaBackend<T>::attend_by_kernel(const Issued&);                                                    \
    template void CudaBackend<T>::attention_backward(const Issued&);                                                  \
    template void CudaBackend<T>::backward_by_kernel(const Issued&);                                                  \
    template void CudaBackend<T>::merge(const Issued&);                                                               \
    template void CudaBackend<T>::finish_attention(const Issued&);                                                    \
    template void CudaBackend<T>::attention_delta(const Issued&);                                                     \
    template bool CudaBackend<T>::library_supports(const AttentionWindow&, bool);
OOMB_ATTENTION(BFloat16)
OOMB_ATTENTION(float)
template void CudaBackend<BFloat16>::attend_by_library(const Issued&, const AttentionWindow&);
template void CudaBackend<BFloat16>::backward_by_library(const Issued&, const AttentionWindow&);
template CudaBackend<BFloat16>::Window CudaBackend<BFloat16>::contiguous_window(const Issued&, std::byte*);

}  // namespace oomb::trainer
