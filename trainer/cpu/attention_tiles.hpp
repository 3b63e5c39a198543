#pragma once
// How an attention operation of the CPU backend is cut for matrix products: blocks of queries that read the same keys,
// and tiles of a query head's rows. Private to attention.cpp.

#include <algorithm>
#include <cstdint>
#include <numeric>
#include <vector>

#include "runtime/issue/issued_operation.hpp"
#include "runtime/schedule/region_sizes.hpp"

namespace oomb::trainer {

// Queries of an operation that read the same keys.
struct AttentionBlock {
    std::int64_t first = 0, rows = 0;  // queries, counted from the operation's first
    std::int64_t keys = 0;
    std::int64_t visible = 0;         // the first row sees this many keys and one more, each further row one more
    std::int64_t sliding_window = 0;  // of them each row sees only so many at the end; 0: all
    std::vector<std::int64_t> pages;  // with the keys, as places in the operation's grants
};

// All queries over a window, or the queries of each page over the pages of its list.
inline std::vector<AttentionBlock> blocks_of(const issue::IssuedOperation& issued, std::int64_t page_tokens) {
    const auto& cost = std::get<schedule::AttentionCost>(issued.operation.cost);
    std::vector<AttentionBlock> blocks;
    if (!cost.listed) {
        blocks.push_back({0, cost.queries, cost.keys, cost.first_query - cost.first_key, cost.sliding_window, {}});
        blocks[0].pages.resize(issued.grants[0].frames.size());
        std::iota(blocks[0].pages.begin(), blocks[0].pages.end(), 0);
        return blocks;
    }
    const std::vector<std::int32_t> places = places_of(*issued.lists);
    auto list = places.begin();
    for (std::int64_t first = 0; first < cost.queries; first += page_tokens) {
        blocks.push_back({first, std::min(page_tokens, cost.queries - first), cost.keys, cost.keys, 0, {}});
        blocks.back().pages.assign(list, list + issued.lists->length);
        list += issued.lists->length;
    }
    return blocks;
}

// One query head's rows [first, first + rows) of an operation against the keys they may see, [first_key, end_key) of
// the block's. Row r sees those from seen_from + r, where that is not below first_key, to seen_to + r.
struct AttentionTile {
    std::int64_t head = 0, kv_head = 0;
    std::int64_t first = 0, rows = 0;
    std::int64_t first_key = 0, end_key = 0;
    std::int64_t seen_from = 0, seen_to = 0;

    std::int64_t keys() const { return end_key - first_key; }
};

// Tiles of which no row sees a key are left out.
template <class Visit>
void for_each_tile(const schedule::AttentionCost& cost, const AttentionBlock& block, const Visit& visit) {
    const std::int64_t group = cost.query_heads / cost.kv_heads;
    for (std::int64_t head = 0; head < cost.query_heads; ++head) {
        for (std::int64_t row = 0; row < block.rows; row += schedule::kCpuQueryTile) {
            AttentionTile tile{head, head / group, block.first + row,
                               std::min(schedule::kCpuQueryTile, block.rows - row)};
            tile.seen_to = block.visible + row;
            tile.end_key = std::min(block.keys, tile.seen_to + tile.rows);
            if (block.sliding_window > 0) {
                tile.seen_from = tile.seen_to + 1 - block.sliding_window;
                tile.first_key = std::max<std::int64_t>(0, tile.seen_from);
            }
            if (tile.first_key < tile.end_key) {
                visit(tile);
            }
        }
    }
}

// Sets the scores of keys after each row's own position, and of those beyond its sliding window.
template <class T>
void mask_unseen(T* scores, const AttentionTile& tile, T value, bool slides) {
    for (std::int64_t row = 0; row < tile.rows; ++row) {
        T* const of_row = scores + row * tile.keys();
        std::fill(of_row + std::min(tile.keys(), tile.seen_to + row + 1 - tile.first_key), of_row + tile.keys(), value);
        if (slides) {
            std::fill(of_row, of_row + std::clamp<std::int64_t>(tile.seen_from + row - tile.first_key, 0, tile.keys()),
                      value);
        }
    }
}

}  // namespace oomb::trainer
