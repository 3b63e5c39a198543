// Recall of the CPU backend: the attention that every page before the chunk gets, and how much of it the best ones
// cover.

#include <ATen/ops/mm.h>

#include <algorithm>
#include <cmath>

#include "kernels/cpu/lanes.hpp"
#include "kernels/cpu/page_selection.hpp"
#include "runtime/schedule/region_sizes.hpp"
#include "trainer/cpu/cpu_backend.hpp"
#include "trainer/cpu/matrix.hpp"
#include "trainer/executor/selection_operands.hpp"

namespace oomb::trainer {

using enum schedule::RegionName;

// In fp32 and fp64 by the library, a product per tile of queries and query head; in bf16 by our kernel, the definition
// of both.
template <class T>
void CpuBackend<T>::page_mass(const Issued& issued) {
    const std::int64_t page_tokens = plan_.run.page_tokens;
    const PageSet& pages = issued.operation.requests[0].pages;
    const auto window = page_view<const T>(issued, 0, pages.first * page_tokens, pages.count * page_tokens);
    const kernels::PageMass<T> args = page_mass_operands<T>(memory_, plan_, issued, window);
    if constexpr (std::is_same_v<T, A>) {
        const std::int64_t each = model_.kv_width() + std::min(args.tokens, schedule::kCpuQueryTile);
        mass_by_library(args, memory_.template write<T>(issued, kAttentionScratch, window.tokens * each));
    } else {
        kernels::cpu::page_mass<T>(args);
    }
}

// `scratch`: the keys of the window side by side, scores of a tile of queries of one head over all of them.
template <class T>
void CpuBackend<T>::mass_by_library(const kernels::PageMass<T>& args, T* scratch) {
    const std::int64_t dim = args.kv.head_dim, heads = args.query_heads, page_tokens = args.kv.page_tokens;
    const std::int64_t group = heads / args.kv.kv_heads, width = args.kv.kv_heads * dim, keys = args.kv.tokens;
    for (std::int64_t key = 0; key < keys; key += page_tokens) {
        std::copy_n(args.kv.k_row(key, 0), page_tokens * width, scratch + key * width);
    }
    T* scores = scratch + keys * width;
    for (std::int64_t row = 0; row < args.tokens; row += page_tokens) {
        std::fill_n(args.mass + row / page_tokens * args.pages, keys / page_tokens, T{0});
    }
    for (std::int64_t first = 0; first < args.tokens; first += schedule::kCpuQueryTile) {
        const std::int64_t rows = std::min(schedule::kCpuQueryTile, args.tokens - first);
        auto tile = matrix(scores, rows, keys);
        for (std::int64_t head = 0; head < heads; ++head) {
            const auto queries = matrix(args.q + (first * heads + head) * dim, rows, dim, heads * dim);
            at::mm_out(tile, queries, matrix(scratch + head / group * dim, keys, dim, width).t());
            tile.mul_(args.scale).sub_(matrix(args.lse + first * heads + head, rows, 1, heads)).exp_();
            for (std::int64_t row = 0; row < rows; ++row) {
                T* sums = args.mass + (first + row) / page_tokens * args.pages;
                for (std::int64_t key = 0; key < keys; key += page_tokens) {
                    const T* weights = scores + row * keys + key;
                    sums[key / page_tokens] +=
                        kernels::cpu::sum_in_lanes<T>(page_tokens, [=](std::int64_t i) { return weights[i]; });
                }
            }
        }
    }
}

template <class T>
void CpuBackend<T>::page_recall(const Issued& issued) {
    kernels::cpu::page_recall(page_recall_operands<A>(memory_, plan_, issued));
}

#define OOMB_PAGE_RECALL(T)                                \
    template void CpuBackend<T>::page_mass(const Issued&); \
    template void CpuBackend<T>::page_recall(const Issued&);
OOMB_PAGE_RECALL(BFloat16)
OOMB_PAGE_RECALL(float)
OOMB_PAGE_RECALL(double)
template void CpuBackend<float>::mass_by_library(const kernels::PageMass<float>&, float*);
template void CpuBackend<double>::mass_by_library(const kernels::PageMass<double>&, double*);

}  // namespace oomb::trainer
