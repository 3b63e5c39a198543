#pragma once
// What an operation on the compute engine is made of. A hardware profile says what each part of it takes.
//
// Products and attention are done in tiles, one per multiprocessor at a time: in waves, of which the last may be nearly
// empty. FLOPs are counted as if every wave were full, waves beside them, for each has a begin and an end.

#include <array>
#include <cstdint>

#include "runtime/core/hardware_profile.hpp"
#include "runtime/core/inline_vector.hpp"
#include "runtime/core/run_configuration.hpp"
#include "runtime/schedule/operation.hpp"

namespace oomb::simulator {

// Kernels that work in tiles. Attention's have rates for each head size.
enum class TileKernel : std::uint8_t {
    kGemm,
    kAttentionForward,
    kAttentionForwardCausal,
    kAttentionBackward,
    kAttentionBackwardCausal,
    kAttentionBackwardDeterministic,
    kAttentionBackwardCausalDeterministic,
    kOwnAttentionForward,  // and so on, in the order above
    kOwnAttentionForwardCausal,
    kOwnAttentionBackward,
    kOwnAttentionBackwardCausal,
    kOwnAttentionBackwardDeterministic,
    kOwnAttentionBackwardCausalDeterministic,
};
inline constexpr int kTileKernels = 13;
inline constexpr int kAttentionTileKernels = 6;  // of the library's, and as many of our own

constexpr bool is_own(TileKernel kernel) {
    return kernel >= TileKernel::kOwnAttentionForward;
}
// The library's kernel that does the same.
constexpr TileKernel library_kernel(TileKernel own) {
    return static_cast<TileKernel>(static_cast<int>(own) - kAttentionTileKernels);
}
constexpr TileKernel own_kernel(TileKernel library) {
    return static_cast<TileKernel>(static_cast<int>(library) + kAttentionTileKernels);
}

enum class Part : std::uint8_t {
    kLaunch,       // a kernel
    kGemmSumByte,  // of what a product is added to, read or written
    kHbmCopyByte,  // read or written
    kHbmReadByte,
    kHbmWriteByte,
    kPassByte,  // of the first of kPasses, then of the others
};
inline constexpr int kParts = static_cast<int>(Part::kPassByte) + static_cast<int>(kPasses.size());

struct PartAmount {
    Part part = Part::kLaunch;
    double amount = 0.0;
};

// A way to cut a product or an attention.
struct Tiling {
    double flops = 0.0, waves = 0.0;
};

// All parts are done one after the other; but a product takes at least as long as the bytes of its operands. Of its
// ways to be cut the fastest is taken.
struct OperationParts {
    InlineVector<PartAmount, 4> list;
    InlineVector<Tiling, 40> tilings;  // none: nothing is done in tiles
    TileKernel kernel = TileKernel::kGemm;
    std::int64_t head_dim = 0;  // of attention
    double least_bytes = 0.0;   // of a product, read and written
};

// Nothing for an operation without a cost. `run` says the types, `multiprocessors` how many tiles make a wave.
OperationParts parts_of(const schedule::Operation& operation, const RunConfiguration& run,
                        std::int64_t multiprocessors);

// Kernels that the CUDA backend launches for it one after the other, and 1 where there are none.
double launches_of(const schedule::Operation& operation);

}  // namespace oomb::simulator
