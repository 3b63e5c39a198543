#pragma once
// Operands of the optimizer pass: AdamW over one run of parameters.

#include <cstdint>

#include "kernels/element.hpp"

namespace oomb::kernels {

// AdamW with decoupled decay (Loshchilov and Hutter, arXiv 1711.05101, Algorithm 2), as torch.optim.AdamW:
//     g = gradient_scale * gradient,  m = beta1 m + (1 - beta1) g,  v = beta2 v + (1 - beta2) g^2,
//     w = w (1 - lr decay) - lr / (1 - beta1^step) * m / (sqrt(v / (1 - beta2^step)) + eps).
// With learning_rate 0 the weights keep their bits (-0 too); m and v move.
template <class T>
struct AdamWStep {
    Accumulator<T>* weights = nullptr;         // in/out [count], the master weights
    const Accumulator<T>* gradient = nullptr;  // [count]
    Accumulator<T>* m = nullptr;               // in/out [count], 0 before the first step
    Accumulator<T>* v = nullptr;               // in/out [count], 0 before the first step
    T* weights_copy = nullptr;                 // out [count] or null: the new weights rounded to T
    std::int64_t count = 0;
    std::int64_t step = 1;  // 1 for the first
    double learning_rate = 0;
    double beta1 = 0.9;
    double beta2 = 0.95;
    double eps = 1e-8;
    double weight_decay = 0;
    double gradient_scale = 1.0;  // from clipping by the global norm
};

}  // namespace oomb::kernels
