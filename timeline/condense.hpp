#pragma once
// Lanes of few enough pieces to draw: what is too short to be seen is joined.

#include <cstdint>
#include <vector>

namespace oomb::timeline {

// Of a lane, in which they are in order and none overlaps the next.
struct Piece {
    std::int64_t begin_ns = 0, end_ns = 0;
    std::uint32_t category = 0;  // what it counts as, from 0
};
using Pieces = std::vector<Piece>;

struct DrawnPiece {
    std::int64_t begin_ns = 0, end_ns = 0;
    std::size_t first = 0, count = 1;  // the pieces of the lane that it stands for
    std::int64_t busy_ns = 0;          // of them; gaps between them are not
    std::uint32_t category = 0;        // of most of its time
};

// All lanes with at most `limit` pieces together. The resolution is the shortest time that every piece of at least that
// length, and every gap of at least that length, is still drawn for itself; 0: nothing had to be joined. Lanes whose
// pieces lie far apart may leave more than `limit`, one per lane at worst.
struct DrawnLanes {
    std::vector<std::vector<DrawnPiece>> lanes;
    std::int64_t resolution_ns = 0;
};
DrawnLanes condense(const std::vector<Pieces>& lanes, std::int64_t limit);

}  // namespace oomb::timeline
