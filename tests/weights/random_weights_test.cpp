#include "trainer/weights/random_weights.hpp"

#include <doctest/doctest.h>

#include <cmath>
#include <set>

#include "tests/weights/small_model.hpp"

namespace oomb::trainer {
namespace {

ParameterInfo matrix(const std::string& name, std::int64_t elements) {
    return {.name = name, .shape = {elements, 1}, .kind = ParameterKind::kQWeight, .elements = elements};
}

std::vector<double> values_of(const ParameterInfo& parameter, std::uint64_t seed) {
    std::vector<double> values(static_cast<std::size_t>(parameter.elements));
    random_values(parameter, seed, std::span(values));
    return values;
}

}  // namespace

TEST_CASE("pieces in any order give the whole") {
    const ParameterInfo parameter = matrix("w", 100'001);  // several of the blocks that threads share
    const std::vector<double> whole = values_of(parameter, 7);
    std::vector<double> pieces(whole.size());
    for (const auto& [begin, count] : {std::pair(50'000, 50'001), std::pair(0, 3), std::pair(3, 49'997)}) {
        random_values(parameter, 7, std::span(pieces).subspan(begin, count), begin);
    }
    CHECK(pieces == whole);
    std::vector<float> narrow(whole.size());
    random_values(parameter, 7, std::span(narrow));
    CHECK(narrow[100'000] == static_cast<float>(whole[100'000]));
}

TEST_CASE("the distribution is normal with the stated deviation, without repeats") {
    constexpr std::int64_t kCount = 200'000;
    const std::vector<double> values = values_of(matrix("w", kCount), 3);
    double sum = 0;
    double squares = 0;
    double product_with_next = 0;
    std::int64_t within_one = 0;
    for (std::size_t i = 0; i < values.size(); ++i) {
        const double z = values[i] / kInitialStd;
        sum += z;
        squares += z * z;
        product_with_next += i + 1 < values.size() ? z * values[i + 1] / kInitialStd : 0;
        within_one += std::abs(z) < 1;
    }
    // Standard errors for n values: mean 1/sqrt(n) = 0.0022, variance sqrt(2/n) = 0.0032, correlation with the next
    // value 0.0022, share within one deviation sqrt(0.683 * 0.317 / n) = 0.0010. The limits are five of them.
    CHECK(std::abs(sum / kCount) < 0.011);
    CHECK(std::abs(squares / kCount - 1) < 0.016);
    CHECK(std::abs(product_with_next / kCount) < 0.011);
    CHECK(std::abs(static_cast<double>(within_one) / kCount - 0.682689) < 0.0052);
    CHECK(std::set<double>(values.begin(), values.end()).size() == values.size());
}

TEST_CASE("seed and name choose the stream") {
    const std::vector<double> values = values_of(matrix("w", 4), 1);
    CHECK(values == values_of(matrix("w", 4), 1));
    CHECK(values != values_of(matrix("w", 4), 2));
    CHECK(values != values_of(matrix("v", 4), 1));
}

TEST_CASE("norms are one, biases zero, everything else is drawn") {
    ModelShape shape = small_shape();
    shape.qkv_bias = true;
    shape.qk_norm = true;
    for (const ParameterInfo& parameter : parameters_of(shape)) {
        CAPTURE(parameter.name);
        const std::vector<double> values = values_of(parameter, 5);
        const std::set<double> distinct(values.begin(), values.end());
        if (is_norm(parameter.kind)) {
            CHECK(distinct == std::set<double>{1.0});
        } else if (is_bias(parameter.kind)) {
            CHECK(distinct == std::set<double>{0.0});
        } else {
            CHECK(distinct.size() == values.size());
        }
    }
}

}  // namespace oomb::trainer
