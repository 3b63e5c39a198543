#include "kernels/cuda/page_list.hpp"

#include <algorithm>

namespace oomb::kernels::cuda {
namespace {

// Parameters of one launch: 3.5 of the 4 KB that every launch may have.
constexpr int kPages = 704;
struct Piece {
    std::int32_t frames[kPages];
    std::uint8_t first_touch[kPages];
    std::int32_t* frames_out;
    std::uint8_t* first_touch_out;  // null: none
    int pages;
};

__global__ void __launch_bounds__(kPages) write_kernel(const __grid_constant__ Piece piece) {
    const int page = static_cast<int>(threadIdx.x);
    if (page < piece.pages) {
        piece.frames_out[page] = piece.frames[page];
        if (piece.first_touch_out != nullptr) {
            piece.first_touch_out[page] = piece.first_touch[page];
        }
    }
}

}  // namespace

void write_page_list(std::span<const std::int32_t> frames, std::span<const std::uint8_t> first_touch,
                     std::int32_t* frames_out, std::uint8_t* first_touch_out, cudaStream_t stream) {
    const bool touches = !first_touch.empty();
    require_operand(!touches || first_touch.size() == frames.size(), "write_page_list", "length of first_touch",
                    std::ssize(first_touch), "0 or the number of frames");
    for (std::size_t first = 0; first < frames.size(); first += kPages) {
        Piece piece{};
        const std::size_t count = std::min<std::size_t>(kPages, frames.size() - first);
        std::copy_n(frames.begin() + first, count, piece.frames);
        piece.frames_out = frames_out + first;
        if (touches) {
            std::copy_n(first_touch.begin() + first, count, piece.first_touch);
            piece.first_touch_out = first_touch_out + first;
        }
        piece.pages = static_cast<int>(count);
        write_kernel<<<1, kPages, 0, stream>>>(piece);
        check_launch("write_page_list");
    }
}

}  // namespace oomb::kernels::cuda
