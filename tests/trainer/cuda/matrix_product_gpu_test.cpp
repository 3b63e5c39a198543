// Products of cuBLASLt against sums in float64: all three forms, sizes and alignments that models of odd widths lead
// to.

#include <doctest/doctest.h>

#include <cmath>
#include <random>
#include <vector>

#include "runtime/device/check.hpp"
#include "runtime/device/stream.hpp"
#include "trainer/cuda/matrix_product.hpp"

namespace oomb::testing {
namespace {

using trainer::Product;
using trainer::ProductForm;

constexpr std::size_t kWorkspace = 32 << 20;

class DeviceBytes {
  public:
    explicit DeviceBytes(std::size_t bytes) {
        OOMB_CUDA(cudaMalloc(&data_, bytes + 256));
        OOMB_CUDA(cudaMemset(data_, 0xff, bytes + 256));  // NaN: what is not written shows
    }
    ~DeviceBytes() { cudaFree(data_); }
    DeviceBytes(const DeviceBytes&) = delete;
    DeviceBytes& operator=(const DeviceBytes&) = delete;
    void* data() const { return data_; }

  private:
    void* data_ = nullptr;
};

template <class T>
std::vector<T> normal_values(std::size_t count, std::mt19937_64& random) {
    std::normal_distribution<float> normal;
    std::vector<T> values(count);
    for (T& value : values) {
        value = static_cast<T>(normal(random));
    }
    return values;
}

// `skip` elements before the operand: parameters lie one behind the other, at any multiple of an element.
template <class T>
T* upload(const DeviceBytes& memory, const std::vector<T>& values, std::int64_t skip) {
    T* start = static_cast<T*>(memory.data()) + skip;
    OOMB_CUDA(cudaMemcpy(start, values.data(), values.size() * sizeof(T), cudaMemcpyHostToDevice));
    return start;
}

struct Shape {
    std::int64_t m, n, k, skip;
};

template <class In, class Out>
void check_product(ProductForm form, const Shape& shape, bool adds, DType input, DType output) {
    CAPTURE(static_cast<int>(form));
    CAPTURE(shape.m);
    CAPTURE(shape.n);
    CAPTURE(shape.k);
    CAPTURE(shape.skip);
    CAPTURE(adds);
    std::mt19937_64 random(5);
    const auto a = normal_values<In>(shape.m * shape.k, random), b = normal_values<In>(shape.n * shape.k, random);
    const auto c = normal_values<Out>(shape.m * shape.n, random);
    const bool a_is_km = form == ProductForm::kWeightGradient, b_is_kn = form != ProductForm::kOutput;
    const DeviceBytes a_memory(a.size() * sizeof(In) + 16), b_memory(b.size() * sizeof(In) + 16);
    const DeviceBytes d_memory(c.size() * sizeof(Out) + 64), workspace(kWorkspace);
    const device::Stream stream;
    trainer::MatrixProducts products(stream.get(), workspace.data(), kWorkspace, true);
    Out* d = upload(d_memory, c, shape.skip);
    products.multiply({.form = form,
                       .m = shape.m,
                       .n = shape.n,
                       .k = shape.k,
                       .a = {upload(a_memory, a, shape.skip), a_is_km ? shape.m : shape.k},
                       .b = {upload(b_memory, b, shape.skip), b_is_kn ? shape.n : shape.k},
                       .addend = adds ? d : nullptr,
                       .d = d,
                       .d_stride = shape.n,
                       .input = input,
                       .output = output});
    stream.wait_idle();
    std::vector<Out> found(c.size());
    OOMB_CUDA(cudaMemcpy(found.data(), d, found.size() * sizeof(Out), cudaMemcpyDeviceToHost));
    // Sums of k products of unit scale in fp32, then a rounding to the output type: of the product, where cuBLASLt
    // rounds before it adds a bf16 addend, and of the result.
    const double rounding = output == DType::kBF16 ? 0x1p-8 : 0x1p-23;
    for (std::int64_t i = 0; i < shape.m; ++i) {
        for (std::int64_t j = 0; j < shape.n; ++j) {
            const double addend = adds ? static_cast<double>(static_cast<float>(c[i * shape.n + j])) : 0.0;
            double sum = addend, size = std::abs(addend);
            for (std::int64_t l = 0; l < shape.k; ++l) {
                const double x = static_cast<float>(a[a_is_km ? l * shape.m + i : i * shape.k + l]);
                const double y = static_cast<float>(b[b_is_kn ? l * shape.n + j : j * shape.k + l]);
                sum += x * y;
                size += std::abs(x * y);
            }
            const double error = std::abs(static_cast<float>(found[i * shape.n + j]) - sum);
            const double rounded = std::abs(sum) + (adds ? std::abs(sum - addend) : 0.0);
            REQUIRE(error <= rounding * rounded + static_cast<double>(shape.k) * 0x1p-23 * size);
        }
    }
}

TEST_CASE("all forms, with and without an addend, odd sizes and alignments") {
    const Shape shapes[] = {{64, 128, 256, 0}, {1, 128, 64, 0}, {57, 48, 24, 8}, {33, 50, 24, 2},
                            {17, 19, 23, 1},   {1, 1, 1, 3},    {5, 3, 64, 1},   {128, 7, 40, 0}};
    for (const ProductForm form : {ProductForm::kOutput, ProductForm::kInputGradient, ProductForm::kWeightGradient}) {
        for (const Shape& shape : shapes) {
            for (const bool adds : {false, true}) {
                check_product<BFloat16, BFloat16>(form, shape, adds, DType::kBF16, DType::kBF16);
                check_product<BFloat16, float>(form, shape, adds, DType::kBF16, DType::kF32);
                check_product<float, float>(form, shape, adds, DType::kF32, DType::kF32);
            }
        }
    }
}

TEST_CASE("no rows: nothing is enqueued") {
    const DeviceBytes workspace(kWorkspace);
    const device::Stream stream;
    trainer::MatrixProducts products(stream.get(), workspace.data(), kWorkspace, false);
    CHECK_NOTHROW(products.multiply({.m = 0, .n = 8, .k = 8, .a = {}, .b = {}}));
}

}  // namespace
}  // namespace oomb::testing
