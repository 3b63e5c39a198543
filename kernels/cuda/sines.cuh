#pragma once
// Sines and cosines of RoPE's angles, computed once for a block's rows and shared by its heads.

#include <cstdint>

namespace oomb::kernels::cuda {

__device__ inline void sine_and_cosine(double angle, double* sine, double* cosine) {
    sincos(angle, sine, cosine);
}
// Reduced to [-pi, pi] in float64, with 2 pi in two parts so that angles of 2^31 lose nothing, then evaluated in float.
__device__ inline void sine_and_cosine(double angle, float* sine, float* cosine) {
    constexpr double kTurn = 6.283185307179586;
    constexpr double kTurnRest = 2.4492935982947064e-16;
    const double turns = rint(angle * (1 / kTurn));
    sincosf(static_cast<float>(fma(-turns, kTurnRest, fma(-turns, kTurn, angle))), sine, cosine);
}

// In shared memory, [rows, half] each.
template <class A>
struct SineTable {
    A* sines;
    A* cosines;
    int half;

    // The whole block calls; a barrier must follow. `direction` is 1 for forward and -1 for backward; `args` has
    // inverse_frequency and attention_factor.
    template <class Args, class PositionOf>
    __device__ void fill(const Args& args, double direction, int rows, const PositionOf& position_of) const {
        for (int at = static_cast<int>(threadIdx.x); at < rows * half; at += static_cast<int>(blockDim.x)) {
            const double position = static_cast<double>(position_of(at / half));
            A sine, cosine;
            sine_and_cosine(position * double(args.inverse_frequency[at % half]), &sine, &cosine);
            sines[at] = A(direction * args.attention_factor) * sine;
            cosines[at] = A(args.attention_factor) * cosine;
        }
    }
};

}  // namespace oomb::kernels::cuda
