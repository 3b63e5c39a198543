#pragma once
// Elements in device code: widening to the accumulator, rounding back, and packs of 16 bytes.

#include <cstdint>
#include <type_traits>

#include "kernels/element.hpp"

namespace oomb::kernels::cuda {

template <class T>
__device__ inline Accumulator<T> widen(T element) {
    if constexpr (std::is_same_v<T, BFloat16>) {
        return __uint_as_float(static_cast<std::uint32_t>(element.bits) << 16);
    } else {
        return element;
    }
}

// Rounded to nearest even, NaN stays NaN: as BFloat16's own constructor.
template <class T>
__device__ inline T narrow(Accumulator<T> value) {
    if constexpr (std::is_same_v<T, BFloat16>) {
        BFloat16 element;
        asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(element.bits) : "f"(value));  // cuda_bf16.h costs seconds of compile time
        return element;
    } else {
        return value;
    }
}

// N elements that move in one access of up to 16 bytes.
template <class T, int N>
struct alignas(sizeof(T) * N) Pack {
    T e[N];
};

template <class T>
constexpr int kPackSize = 16 / static_cast<int>(sizeof(T));

template <int N, class T>
__device__ inline Pack<T, N> load_pack(const T* from) {
    return *reinterpret_cast<const Pack<T, N>*>(from);
}
template <int N, class T>
__device__ inline void store_pack(T* to, const Pack<T, N>& pack) {
    *reinterpret_cast<Pack<T, N>*>(to) = pack;
}

// The same for more than 16 bytes, in accesses of 16.
template <int N, class T>
__device__ inline Pack<T, N> load_wide(const T* from) {
    constexpr int kPiece = N < kPackSize<T> ? N : kPackSize<T>;
    Pack<T, N> all;
    for (int first = 0; first < N; first += kPiece) {
        const auto piece = load_pack<kPiece>(from + first);
        for (int j = 0; j < kPiece; ++j) {
            all.e[first + j] = piece.e[j];
        }
    }
    return all;
}
template <int N, class T>
__device__ inline void store_wide(T* to, const Pack<T, N>& all) {
    constexpr int kPiece = N < kPackSize<T> ? N : kPackSize<T>;
    for (int first = 0; first < N; first += kPiece) {
        Pack<T, kPiece> piece;
        for (int j = 0; j < kPiece; ++j) {
            piece.e[j] = all.e[first + j];
        }
        store_pack(to + first, piece);
    }
}

// Starts moving the line at `from` into L2.
template <class T>
__device__ inline void prefetch(const T* from) {
    asm volatile("prefetch.global.L2 [%0];" ::"l"(from));
}

// Null is aligned.
template <class... P>
bool aligned_for_packs(const P*... pointers) {
    return ((reinterpret_cast<std::uintptr_t>(pointers) % 16 == 0) && ...);
}

}  // namespace oomb::kernels::cuda
