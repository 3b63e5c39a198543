#pragma once
// Matrix products by cuBLASLt on row-major matrices, in one stream, within a workspace of fixed size.

#include <cublasLt.h>
#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>

#include "runtime/core/dtype.hpp"

namespace oomb::trainer {

// What a linear layer y = x W^T multiplies. A weight W is [outputs, inputs].
enum class ProductForm : std::uint8_t {
    kOutput,          // d [m, n] = a [m, k] b^T,  b [n, k]: y of x and W
    kInputGradient,   // d [m, n] = a [m, k] b,    b [k, n]: dx of dy and W
    kWeightGradient,  // d [m, n] = a^T b,  a [k, m], b [k, n]: dW of dy and x
};

struct MatrixOperand {
    const void* data = nullptr;
    std::int64_t stride = 0;  // elements from row to row
};

struct Product {
    ProductForm form = ProductForm::kOutput;
    std::int64_t m = 0, n = 0, k = 0;
    MatrixOperand a = {}, b = {};
    const void* addend = nullptr;  // added to the product, in d's type and layout; may be d; null: nothing
    void* d = nullptr;
    std::int64_t d_stride = 0;
    DType input = DType::kBF16;   // of a and b
    DType output = DType::kBF16;  // of the addend and d
};

// Sums run in fp32 (bf16 inputs) or the inputs' own type; fp32 is never rounded to TF32, and long sums of it are sums
// of short ones. A product with a bf16 addend is rounded to bf16 before the addend is added, and after. Used by one
// thread.
class MatrixProducts {
  public:
    // `workspace` lies at 256 bytes and outlives this. `deterministic`: no split sums whose order may vary.
    MatrixProducts(cudaStream_t stream, void* workspace, std::size_t workspace_bytes, bool deterministic);
    ~MatrixProducts();
    MatrixProducts(const MatrixProducts&) = delete;
    MatrixProducts& operator=(const MatrixProducts&) = delete;

    // Enqueues the product. The first of a shape chooses an algorithm, which it keeps; no memory of the GPU is
    // allocated. Throws Error naming shape and types when cuBLASLt refuses.
    void multiply(const Product& product);
    // Shapes, alignments and types that an algorithm has been chosen for.
    std::int64_t plans() const { return static_cast<std::int64_t>(plans_.size()); }

  private:
    struct Plan;
    struct Key;
    const Plan& plan_of(const Product& product);
    void multiply_at_once(const Product& product);

    cublasLtHandle_t handle_ = nullptr;
    cudaStream_t stream_;
    void* workspace_;
    std::size_t workspace_bytes_;
    bool deterministic_;
    std::map<Key, std::unique_ptr<Plan>> plans_;
};

}  // namespace oomb::trainer
