#pragma once
// Plain buffers as LibTorch matrices, and the products that the backend needs. No product allocates its result.
// LibTorch sums products of bf16 in fp32 and rounds once.

#include <ATen/core/Tensor.h>
#include <ATen/ops/addmm.h>
#include <ATen/ops/from_blob.h>
#include <ATen/ops/mm.h>

#include <cstdint>
#include <type_traits>

namespace oomb::trainer {

// [rows, columns] over a buffer, row_stride elements from row to row. The tensor owns nothing.
template <class T>
at::Tensor matrix(T* data, std::int64_t rows, std::int64_t columns, std::int64_t row_stride) {
    using Element = std::remove_const_t<T>;
    const auto type = sizeof(Element) == 8 ? at::kDouble : sizeof(Element) == 4 ? at::kFloat : at::kBFloat16;
    return at::from_blob(const_cast<Element*>(data), {rows, columns}, {row_stride, 1}, at::TensorOptions().dtype(type));
}

template <class T>
at::Tensor matrix(T* data, std::int64_t rows, std::int64_t columns) {
    return matrix(data, rows, columns, columns);
}

}  // namespace oomb::trainer
