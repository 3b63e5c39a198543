// What the sums of matrix products may lose.

#include "trainer/cuda/matrix_product.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <random>
#include <vector>

#include "runtime/device/check.hpp"
#include "runtime/device/device_info.hpp"
#include "runtime/device/stream.hpp"
#include "tests/kernels/cuda/device_buffer.hpp"

namespace oomb::testing {
namespace {

using kernels::test::DeviceBuffer;
using trainer::MatrixProducts;
using trainer::Product;
using trainer::ProductForm;

constexpr std::int64_t kRows = 64, kColumns = 48, kVocabulary = 49'152 + 8;
constexpr float kUnlikely = 0x1p-27F;  // below 2^-25: a sum that holds -1 drops it

// A row of the logits' gradient: -1 for the target, little for all others.
std::vector<float> logit_gradients(std::mt19937_64& random) {
    std::vector<float> values(kRows * kVocabulary);
    std::uniform_real_distribution<float> share(0.5F, 1.0F);
    std::generate(values.begin(), values.end(), [&] { return kUnlikely * share(random); });
    for (std::int64_t row = 0; row < kRows; ++row) {
        values[row * kVocabulary + static_cast<std::int64_t>(random() % 1024)] = -1.0F;
    }
    return values;
}

// [columns, rows] of [rows, columns].
std::vector<float> transposed(const std::vector<float>& values, std::int64_t rows, std::int64_t columns) {
    std::vector<float> result(values.size());
    for (std::int64_t i = 0; i < rows * columns; ++i) {
        result[i % columns * rows + i / columns] = values[i];
    }
    return result;
}

// Largest |found - exact|, where b is [kVocabulary, kColumns] and c is added.
double worst_error(const std::vector<float>& found, const std::vector<float>& a, const std::vector<float>& b,
                   const std::vector<float>& c) {
    double worst = 0.0;
    for (std::int64_t row = 0; row < kRows; ++row) {
        std::vector<double> sums(c.begin() + row * kColumns, c.begin() + (row + 1) * kColumns);
        for (std::int64_t k = 0; k < kVocabulary; ++k) {
            for (std::int64_t column = 0; column < kColumns; ++column) {
                sums[column] += static_cast<double>(a[row * kVocabulary + k]) * b[k * kColumns + column];
            }
        }
        for (std::int64_t column = 0; column < kColumns; ++column) {
            worst = std::max(worst, std::abs(found[row * kColumns + column] - sums[column]));
        }
    }
    return worst;
}

TEST_CASE("fp32 sums over a vocabulary keep what is unlikely, in every form of a product") {
    const device::DeviceInfo device = device::open_device();
    std::mt19937_64 random(1);
    const std::vector<float> a = logit_gradients(random);
    std::vector<float> b(kVocabulary * kColumns), c(kRows * kColumns);
    std::uniform_real_distribution<float> near_one(0.5F, 1.0F);  // one sign, as a common direction of the embeddings
    std::generate(b.begin(), b.end(), [&] { return near_one(random); });
    std::generate(c.begin(), c.end(), [&] { return near_one(random); });
    DeviceBuffer<float> a_rows(a), a_columns(transposed(a, kRows, kVocabulary));
    DeviceBuffer<float> b_rows(b), b_columns(transposed(b, kVocabulary, kColumns));
    constexpr std::size_t kWorkspace_bytes = 32 << 20;
    DeviceBuffer<std::byte> workspace(kWorkspace_bytes);
    const device::Stream stream;
    for (const bool deterministic : {false, true}) {
        MatrixProducts products(stream.get(), workspace.data(), kWorkspace_bytes, deterministic);
        for (const ProductForm form :
             {ProductForm::kOutput, ProductForm::kInputGradient, ProductForm::kWeightGradient}) {
            CAPTURE(static_cast<int>(form));
            const bool a_by_k = form == ProductForm::kWeightGradient, b_by_k = form != ProductForm::kOutput;
            DeviceBuffer<float> d(c);
            products.multiply({.form = form,
                               .m = kRows,
                               .n = kColumns,
                               .k = kVocabulary,
                               .a = {a_by_k ? a_columns.data() : a_rows.data(), a_by_k ? kRows : kVocabulary},
                               .b = {b_by_k ? b_rows.data() : b_columns.data(), b_by_k ? kColumns : kVocabulary},
                               .addend = d.data(),
                               .d = d.data(),
                               .d_stride = kColumns,
                               .input = DType::kF32,
                               .output = DType::kF32});
            stream.wait_idle();
            // The unlikely ones are worth 2e-4 together. Lost may be those of the target's 1,024, at most 2^-17, and
            // the rounding, 2^-24, of each of 49 sums below 2 that are added up.
            CHECK(worst_error(d.values(), a, b, c) < 0x1p-17 + 49 * 0x1p-24);
        }
    }
}

}  // namespace
}  // namespace oomb::testing
