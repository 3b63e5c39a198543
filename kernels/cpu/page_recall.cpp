// How much attention pages get, and how much of it the best ones: see kernels/page_selection.hpp.

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <numeric>
#include <vector>

#include "kernels/cpu/attention_keys.hpp"
#include "kernels/cpu/lanes.hpp"
#include "kernels/cpu/page_selection.hpp"
#include "kernels/cpu/parallel.hpp"
#include "runtime/core/error.hpp"

namespace oomb::kernels::cpu {
namespace {

template <class T>
Accumulator<T> mass_of(const PageMass<T>& args, std::int64_t first, std::int64_t end, std::int64_t page) {
    using A = Accumulator<T>;
    const auto& kv = args.kv;
    const std::int64_t group = args.query_heads / kv.kv_heads;
    A sum = 0;
    for (std::int64_t row = first * args.query_heads; row < end * args.query_heads; ++row) {
        const std::int64_t kv_head = row % args.query_heads / group;
        const T* q = args.q + row * kv.head_dim;
        for (std::int64_t key = page * kv.page_tokens; key < (page + 1) * kv.page_tokens; ++key) {
            sum += exponential(A(args.scale) * dot<A>(q, kv.k_row(key, kv_head), kv.head_dim) - args.lse[row]);
        }
    }
    return sum;
}

// All pages, those of the highest values first, of equals the lower page; NaN last.
template <class A>
void order_by(const A* values, std::vector<std::int64_t>& order) {
    const auto value = [&](std::int64_t page) {
        return std::isnan(values[page]) ? -std::numeric_limits<A>::infinity() : values[page];
    };
    std::iota(order.begin(), order.end(), 0);
    std::stable_sort(order.begin(), order.end(), [&](std::int64_t a, std::int64_t b) { return value(a) > value(b); });
}

template <class A>
void add_row(const PageRecall<A>& args, std::int64_t row, std::vector<std::int64_t>& by_score,
             std::vector<std::int64_t>& by_mass) {
    const A* mass = args.mass + row * args.pages;
    order_by(args.scores + row * args.pages, by_score);
    order_by(mass, by_mass);
    const double history = std::accumulate(mass, mass + args.pages, 0.0);
    const std::int64_t tokens = std::min(args.page_tokens, args.tokens - row * args.page_tokens);
    for (std::int64_t i = 0; i < args.count && args.budgets[i] < args.pages; ++i) {
        RecallSums& sums = args.sums[i];
        sums.query_pages += 1;
        sums.all_mass += static_cast<double>(tokens * args.query_heads);
        sums.history_mass += history;
        sums.by_chance += history * static_cast<double>(args.budgets[i]) / static_cast<double>(args.pages);
        for (std::int64_t rank = 0; rank < args.budgets[i]; ++rank) {
            const auto distance = static_cast<std::uint64_t>(args.pages - by_score[rank]);
            sums.by_score += static_cast<double>(mass[by_score[rank]]);
            sums.by_mass += static_cast<double>(mass[by_mass[rank]]);
            sums.by_recency += static_cast<double>(mass[args.pages - 1 - rank]);
            sums.distances[std::min<std::int64_t>(kDistanceBins, std::bit_width(distance)) - 1] += 1;
        }
    }
}

}  // namespace

template <class T>
void page_mass(const PageMass<T>& args) {
    const auto& kv = args.kv;
    require_heads(args.query_heads, kv.kv_heads);
    require(kv.tokens % kv.page_tokens == 0, "page mass: {} keys are no whole pages of {}", kv.tokens, kv.page_tokens);
    parallel_blocks(args.tokens, kv.page_tokens, [&](std::int64_t row, std::int64_t begin, std::int64_t end) {
        for (std::int64_t page = 0; page < kv.tokens / kv.page_tokens; ++page) {
            args.mass[row * args.pages + page] = mass_of(args, begin, end, page);
        }
    });
}

template <class A>
void page_recall(const PageRecall<A>& args) {
    std::vector<std::int64_t> by_score(args.pages), by_mass(args.pages);
    for (std::int64_t row = 0; row * args.page_tokens < args.tokens; ++row) {
        add_row(args, row, by_score, by_mass);
    }
}

template void page_mass(const PageMass<double>&);
template void page_mass(const PageMass<float>&);
template void page_mass(const PageMass<BFloat16>&);
template void page_recall(const PageRecall<double>&);
template void page_recall(const PageRecall<float>&);

}  // namespace oomb::kernels::cpu
