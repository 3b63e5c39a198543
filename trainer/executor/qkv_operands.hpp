#pragma once
// What the QKV kernels are told of the model and of the operation: the same on every device.

#include "kernels/qkv.hpp"
#include "runtime/schedule/operation.hpp"
#include "trainer/weights/parameters.hpp"

namespace oomb::trainer {

// Args is kernels::QkvForward or QkvBackward; buffers and pages are left to the caller. `parameter(kind)` is a weight
// of the operation's layer.
template <class Args, class Parameter>
Args qkv_operands(const ModelShape& model, const schedule::Operation& operation, const float* inverse_frequency,
                  double attention_factor, const Parameter& parameter) {
    Args args;
    if (model.qkv_bias) {
        args.q_bias = parameter(ParameterKind::kQBias);
        args.k_bias = parameter(ParameterKind::kKBias);
        args.v_bias = parameter(ParameterKind::kVBias);
    }
    if (model.qk_norm) {
        args.q_norm = parameter(ParameterKind::kQNorm);
        args.k_norm = parameter(ParameterKind::kKNorm);
    }
    args.inverse_frequency = inverse_frequency;
    args.attention_factor = attention_factor;
    args.rows = operation.rows;
    args.query_heads = model.query_heads;
    args.kv_heads = model.kv_heads;
    args.head_dim = model.head_dim;
    args.first_position = operation.first_row;
    args.eps = model.rms_norm_eps;
    return args;
}

// `gradient(kind)` is that of a parameter of the operation's layer.
template <class T, class Gradient>
void set_qkv_gradients(kernels::QkvBackward<T>& args, const ModelShape& model, const Gradient& gradient) {
    if (model.qkv_bias) {
        args.d_q_bias = gradient(ParameterKind::kQBias);
        args.d_k_bias = gradient(ParameterKind::kKBias);
        args.d_v_bias = gradient(ParameterKind::kVBias);
    }
    if (model.qk_norm) {
        args.d_q_norm = gradient(ParameterKind::kQNorm);
        args.d_k_norm = gradient(ParameterKind::kKNorm);
    }
}

}  // namespace oomb::trainer
