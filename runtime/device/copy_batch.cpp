#include "runtime/device/copy_batch.hpp"

#include <algorithm>
#include <functional>

#include "runtime/core/error.hpp"

namespace oomb::device {

void CopyBatch::add(void* destination, const void* source, std::int64_t bytes) {
    require(!full() && bytes > 0, "copy {} of {} bytes into a batch of {}", size_, bytes, kMaxCopies);
    destinations_[size_] = destination;
    sources_[size_] = source;
    bytes_[size_] = static_cast<std::size_t>(bytes);
    ++size_;
}

void CopyBatch::sort_by_destination() {
    if (std::is_sorted(destinations_.begin(), destinations_.begin() + size_, std::less<>())) {
        return;
    }
    for (std::size_t i = 0; i < size_; ++i) {
        entries_[i] = {destinations_[i], sources_[i], bytes_[i]};
    }
    std::sort(entries_.begin(), entries_.begin() + size_,
              [](const Entry& a, const Entry& b) { return std::less<>()(a.destination, b.destination); });
    for (std::size_t i = 0; i < size_; ++i) {
        destinations_[i] = entries_[i].destination;
        sources_[i] = entries_[i].source;
        bytes_[i] = entries_[i].bytes;
    }
}

std::int64_t bytes_in_piece(const ArenaView& view, std::int64_t offset, std::int64_t bytes) {
    return view.piece_bytes == 0 ? bytes : std::min(bytes, view.piece_bytes - offset % view.piece_bytes);
}

}  // namespace oomb::device
