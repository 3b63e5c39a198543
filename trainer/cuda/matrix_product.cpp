#include "trainer/cuda/matrix_product.hpp"

#include <algorithm>
#include <compare>
#include <tuple>

#include "runtime/core/error.hpp"

namespace oomb::trainer {
namespace {

void check(cublasStatus_t status, const char* call) {
    if (status == CUBLAS_STATUS_ALLOC_FAILED) {
        fail<DoesNotFitError>("{}: no GPU memory is left for cuBLASLt: end other processes on the GPU, or lower {}",
                              call, "--gpu-memory or --context");
    }
    if (status != CUBLAS_STATUS_SUCCESS) {
        fail<Error>("{}: {} ({})", call, cublasLtGetStatusName(status), cublasLtGetStatusString(status));
    }
}
#define OOMB_CUBLASLT(call) check((call), #call)

cudaDataType_t cuda_type(DType type) {
    switch (type) {
        case DType::kBF16:
            return CUDA_R_16BF;
        case DType::kF32:
            return CUDA_R_32F;
        default:
            return CUDA_R_64F;
    }
}

// Terms that one fp32 sum may have. A sum drops a term below 2^-25 of itself, and cuBLASLt adds term by term: over the
// vocabulary, after the target's -1, most probabilities would be dropped, all of one sign. Longer sums are made of
// these.
constexpr std::int64_t kLongestSum = 1024;

// The largest power of two, 256 at most, that the address is a multiple of.
std::uint32_t alignment_of(const void* address) {
    const auto bits = reinterpret_cast<std::uintptr_t>(address) | 256U;
    return static_cast<std::uint32_t>(bits & (~bits + 1));
}

template <class T, cublasStatus_t (*Destroy)(T)>
struct Destroyer {
    void operator()(T handle) const { Destroy(handle); }
};
template <class T, cublasStatus_t (*Destroy)(T)>
using Handle = std::unique_ptr<std::remove_pointer_t<T>, Destroyer<T, Destroy>>;
using LayoutHandle = Handle<cublasLtMatrixLayout_t, cublasLtMatrixLayoutDestroy>;
using DescriptionHandle = Handle<cublasLtMatmulDesc_t, cublasLtMatmulDescDestroy>;

// cuBLASLt is column-major: a row-major [rows, columns] matrix is its [columns, rows].
LayoutHandle layout(DType type, std::int64_t rows, std::int64_t columns, std::int64_t stride) {
    cublasLtMatrixLayout_t made = nullptr;
    OOMB_CUBLASLT(cublasLtMatrixLayoutCreate(&made, cuda_type(type), columns, rows, stride));
    return LayoutHandle(made);
}

// Rows and columns of a and b as they lie in memory.
struct Shapes {
    std::int64_t a_rows, a_columns, b_rows, b_columns;
};
Shapes shapes_of(const Product& p) {
    switch (p.form) {
        case ProductForm::kOutput:
            return {p.m, p.k, p.n, p.k};
        case ProductForm::kInputGradient:
            return {p.m, p.k, p.k, p.n};
        default:
            return {p.k, p.m, p.k, p.n};
    }
}

// In column-major terms d^T = b' a': the operands change places, and those that are read transposed above are read as
// they lie, and the other way round.
DescriptionHandle describe(const Product& p) {
    const bool wide = p.input == DType::kF64;
    cublasLtMatmulDesc_t made = nullptr;
    OOMB_CUBLASLT(cublasLtMatmulDescCreate(&made, wide ? CUBLAS_COMPUTE_64F : CUBLAS_COMPUTE_32F,
                                           wide ? CUDA_R_64F : CUDA_R_32F));
    DescriptionHandle description(made);
    const cublasOperation_t first = p.form == ProductForm::kOutput ? CUBLAS_OP_T : CUBLAS_OP_N;
    const cublasOperation_t second = p.form == ProductForm::kWeightGradient ? CUBLAS_OP_T : CUBLAS_OP_N;
    OOMB_CUBLASLT(cublasLtMatmulDescSetAttribute(made, CUBLASLT_MATMUL_DESC_TRANSA, &first, sizeof first));
    OOMB_CUBLASLT(cublasLtMatmulDescSetAttribute(made, CUBLASLT_MATMUL_DESC_TRANSB, &second, sizeof second));
    return description;
}

// Ways in which parts of a split sum may be added up. Those of a gradient in bf16 stay fp32.
std::uint32_t reduction_schemes(const Product& p, bool deterministic) {
    if (deterministic) {
        return CUBLASLT_REDUCTION_SCHEME_NONE;
    }
    const bool bf16_gradient = p.form == ProductForm::kWeightGradient && p.output == DType::kBF16;
    return bf16_gradient ? CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE : CUBLASLT_REDUCTION_SCHEME_MASK;
}

}  // namespace

struct MatrixProducts::Key {
    ProductForm form;
    DType input, output;
    bool adds;
    std::int64_t m, n, k, a_stride, b_stride, d_stride;
    std::uint32_t a_alignment, b_alignment, c_alignment, d_alignment;
    auto operator<=>(const Key&) const = default;
};

struct MatrixProducts::Plan {
    DescriptionHandle description;
    LayoutHandle a, b, d;
    cublasLtMatmulAlgo_t algorithm{};
};

MatrixProducts::MatrixProducts(cudaStream_t stream, void* workspace, std::size_t workspace_bytes, bool deterministic)
    : stream_(stream), workspace_(workspace), workspace_bytes_(workspace_bytes), deterministic_(deterministic) {
    OOMB_CUBLASLT(cublasLtCreate(&handle_));
}

MatrixProducts::~MatrixProducts() {
    cublasLtDestroy(handle_);
}

const MatrixProducts::Plan& MatrixProducts::plan_of(const Product& p) {
    const Key key{p.form,
                  p.input,
                  p.output,
                  p.addend != nullptr,
                  p.m,
                  p.n,
                  p.k,
                  p.a.stride,
                  p.b.stride,
                  p.d_stride,
                  alignment_of(p.a.data),
                  alignment_of(p.b.data),
                  alignment_of(p.addend),
                  alignment_of(p.d)};
    const auto found = plans_.find(key);
    if (found != plans_.end()) {
        return *found->second;
    }
    auto plan = std::make_unique<Plan>();
    plan->description = describe(p);
    const Shapes shapes = shapes_of(p);
    plan->a = layout(p.input, shapes.a_rows, shapes.a_columns, p.a.stride);
    plan->b = layout(p.input, shapes.b_rows, shapes.b_columns, p.b.stride);
    plan->d = layout(p.output, p.m, p.n, p.d_stride);

    cublasLtMatmulPreference_t preference = nullptr;
    OOMB_CUBLASLT(cublasLtMatmulPreferenceCreate(&preference));
    const Handle<cublasLtMatmulPreference_t, cublasLtMatmulPreferenceDestroy> preference_owner(preference);
    const auto prefer = [&](cublasLtMatmulPreferenceAttributes_t what, auto value) {
        OOMB_CUBLASLT(cublasLtMatmulPreferenceSetAttribute(preference, what, &value, sizeof value));
    };
    prefer(CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, static_cast<std::uint64_t>(workspace_bytes_));
    prefer(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, key.b_alignment);
    prefer(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, key.a_alignment);
    prefer(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, key.c_alignment);
    prefer(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, key.d_alignment);
    prefer(CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK, reduction_schemes(p, deterministic_));
    cublasLtMatmulHeuristicResult_t result{};
    int results = 0;
    const cublasStatus_t status =
        cublasLtMatmulAlgoGetHeuristic(handle_, plan->description.get(), plan->b.get(), plan->a.get(), plan->d.get(),
                                       plan->d.get(), preference, 1, &result, &results);
    if (status != CUBLAS_STATUS_SUCCESS || results == 0) {
        fail<Error>("cuBLASLt knows no algorithm for a product of [{}, {}] over {} with {} inputs and {} outputs ({})",
                    p.m, p.n, p.k, name_of(p.input), name_of(p.output), cublasLtGetStatusName(status));
    }
    plan->algorithm = result.algo;
    return *plans_.emplace(key, std::move(plan)).first->second;
}

void MatrixProducts::multiply(const Product& p) {
    if (p.m == 0 || p.n == 0) {
        return;
    }
    if (p.input != DType::kF32 || p.output != DType::kF32 || p.k <= kLongestSum) {
        multiply_at_once(p);
        return;
    }
    for (std::int64_t first = 0; first < p.k; first += kLongestSum) {
        Product part = p;
        part.k = std::min(kLongestSum, p.k - first);
        const auto from = [&](const MatrixOperand& operand, bool k_is_rows) {
            return static_cast<const float*>(operand.data) + first * (k_is_rows ? operand.stride : 1);
        };
        part.a.data = from(p.a, p.form == ProductForm::kWeightGradient);
        part.b.data = from(p.b, p.form != ProductForm::kOutput);
        part.addend = first == 0 ? p.addend : p.d;
        multiply_at_once(part);
    }
}

void MatrixProducts::multiply_at_once(const Product& p) {
    const Plan& plan = plan_of(p);
    const void* addend = p.addend != nullptr ? p.addend : p.d;
    const float one = 1.0F, beta = p.addend != nullptr ? 1.0F : 0.0F;
    const double wide_one = 1.0, wide_beta = beta;
    const bool wide = p.input == DType::kF64;
    OOMB_CUBLASLT(cublasLtMatmul(
        handle_, plan.description.get(), wide ? static_cast<const void*>(&wide_one) : static_cast<const void*>(&one),
        p.b.data, plan.b.get(), p.a.data, plan.a.get(),
        wide ? static_cast<const void*>(&wide_beta) : static_cast<const void*>(&beta), addend, plan.d.get(), p.d,
        plan.d.get(), &plan.algorithm, workspace_, workspace_bytes_, stream_));
}

}  // namespace oomb::trainer
