#include "timeline/condense.hpp"

#include <algorithm>

namespace oomb::timeline {
namespace {

// Joins neighbours that are both shorter than the resolution, with a gap shorter than it between them, to pieces that
// are no longer than twice the resolution.
class Joiner {
  public:
    explicit Joiner(std::int64_t resolution_ns) : resolution_(resolution_ns) {}

    std::vector<DrawnPiece> run(const Pieces& lane) {
        for (std::size_t i = 0; i < lane.size(); ++i) {
            const Piece& piece = lane[i];
            const std::int64_t length_ns = piece.end_ns - piece.begin_ns;
            if (!drawn_.empty() && joins(piece)) {
                drawn_.back().end_ns = piece.end_ns;
                drawn_.back().count += 1;
            } else {
                close();
                drawn_.push_back({.begin_ns = piece.begin_ns, .end_ns = piece.end_ns, .first = i});
            }
            drawn_.back().busy_ns += length_ns;
            last_ns_ = length_ns;
            category_ns_.resize(std::max<std::size_t>(category_ns_.size(), piece.category + 1));
            category_ns_[piece.category] += length_ns;
            used_.push_back(piece.category);
        }
        close();
        return std::move(drawn_);
    }

  private:
    bool joins(const Piece& piece) const {
        const DrawnPiece& last = drawn_.back();
        return piece.end_ns - piece.begin_ns < resolution_ && last_ns_ < resolution_ &&
               piece.begin_ns - last.end_ns < resolution_ && (piece.end_ns - last.begin_ns) / 2 < resolution_;
    }

    void close() {
        if (drawn_.empty()) {
            return;
        }
        drawn_.back().category = *std::max_element(used_.begin(), used_.end(),
                                                   [&](auto a, auto b) { return category_ns_[a] < category_ns_[b]; });
        for (const std::uint32_t category : used_) {
            category_ns_[category] = 0;
        }
        used_.clear();
    }

    std::int64_t resolution_;
    std::int64_t last_ns_ = 0;               // length of the piece that was added last
    std::vector<std::int64_t> category_ns_;  // of the drawn piece that is still open
    std::vector<std::uint32_t> used_;        // its categories
    std::vector<DrawnPiece> drawn_;
};

}  // namespace

DrawnLanes condense(const std::vector<Pieces>& lanes, std::int64_t limit) {
    std::int64_t longest_ns = 0;
    for (const Pieces& lane : lanes) {
        longest_ns = std::max(longest_ns, lane.empty() ? 0 : lane.back().end_ns - lane.front().begin_ns);
    }
    for (std::int64_t resolution = 0;; resolution = resolution == 0 ? 1000 : 2 * resolution) {
        DrawnLanes drawn{.lanes = {}, .resolution_ns = resolution};
        std::int64_t pieces = 0;
        for (const Pieces& lane : lanes) {
            drawn.lanes.push_back(Joiner(resolution).run(lane));
            pieces += std::ssize(drawn.lanes.back());
        }
        if (pieces <= limit || resolution > longest_ns / 2) {  // then nothing more can be joined
            return drawn;
        }
    }
}

}  // namespace oomb::timeline
