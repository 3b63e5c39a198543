#pragma once
// What an evaluation sums up of how much attention the best pages cover, per layer and budget K. Counted are the query
// pages with more than K pages before their chunk: those that top-K gives a list.

#include <cstdint>

namespace oomb {

// Bin b of the distances: pages of distance 2^b to 2^(b+1) - 1, the latest page before the chunk having distance 1.
inline constexpr std::int64_t kDistanceBins = 24;

// Attention mass is summed over the query page's tokens and query heads, each of which has a mass of 1.
struct RecallSums {
    double query_pages = 0;
    double all_mass = 0;      // tokens x query heads
    double history_mass = 0;  // of it on pages before the chunk
    // Of it on the K pages with the highest scores, those that top-K takes; on the K pages with the most mass, the best
    // that any choice can do; on the latest K.
    double by_score = 0, by_mass = 0, by_recency = 0;
    double by_chance = 0;                  // on K pages drawn at random, expected: K of all before the chunk
    double distances[kDistanceBins] = {};  // how many of the pages with the highest scores are in the bin

    RecallSums& operator+=(const RecallSums& other) {
        query_pages += other.query_pages;
        all_mass += other.all_mass;
        history_mass += other.history_mass;
        by_score += other.by_score;
        by_mass += other.by_mass;
        by_recency += other.by_recency;
        by_chance += other.by_chance;
        for (std::int64_t bin = 0; bin < kDistanceBins; ++bin) {
            distances[bin] += other.distances[bin];
        }
        return *this;
    }
};

}  // namespace oomb
