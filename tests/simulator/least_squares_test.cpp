#include "simulator/calibration/least_squares.hpp"

#include <doctest/doctest.h>

#include <algorithm>

#include "runtime/core/splitmix.hpp"

namespace oomb::simulator {
namespace {

double missed(const std::vector<Equation>& equations, const std::vector<double>& x) {
    double sum = 0.0;
    for (const Equation& equation : equations) {
        double rest = equation.value;
        for (std::size_t j = 0; j < x.size(); ++j) {
            rest -= equation.coefficients[j] * x[j];
        }
        sum += equation.weight * rest * rest;
    }
    return sum;
}

class Random {
  public:
    explicit Random(std::uint64_t seed) : seed_(seed) {}
    double below(double limit) { return limit * static_cast<double>(random_bits(seed_, drawn_++) >> 11) * 0x1p-53; }

  private:
    std::uint64_t seed_, drawn_ = 0;
};

}  // namespace

TEST_CASE("unknowns of very different sizes are found where readings agree") {
    Random random(81);
    for (int round = 0; round < 50; ++round) {
        const std::vector<double> x = {1e-6 * (1 + random.below(9)), 1e-15 * (1 + random.below(9)), 0.0,
                                       1e-12 * (1 + random.below(9))};
        const double scale[] = {1, 1e10, 1e3, 1e7};
        std::vector<Equation> equations;
        for (int i = 0; i < 12; ++i) {
            Equation equation{{}, 0.0, 0.01 + random.below(1)};
            for (std::size_t j = 0; j < x.size(); ++j) {
                equation.coefficients.push_back(scale[j] * random.below(1));
                equation.value += equation.coefficients[j] * x[j];
            }
            equations.push_back(equation);
        }
        const std::vector<double> found = non_negative_least_squares(equations, x.size());
        // Columns of random numbers have a condition of some tens; 2^-53 times that and the size of the sums.
        for (std::size_t j = 0; j < x.size(); ++j) {
            CHECK(found[j] == doctest::Approx(x[j]).epsilon(1e-11).scale(x[j] == 0 ? 1e-9 : 0));
        }
    }
}

TEST_CASE("nothing near it that is not negative explains contradicting readings better") {
    Random random(82);
    for (int round = 0; round < 50; ++round) {
        std::vector<Equation> equations;
        for (int i = 0; i < 8; ++i) {
            equations.push_back({{random.below(1), random.below(1), random.below(2) - 1}, random.below(2) - 0.5});
        }
        const std::vector<double> found = non_negative_least_squares(equations, 3);
        for (std::size_t j = 0; j < 3; ++j) {
            REQUIRE(found[j] >= 0);
            for (const double step : {-1e-3, 1e-3}) {
                std::vector<double> other = found;
                other[j] = std::max(0.0, other[j] + step);
                CHECK(missed(equations, found) <= missed(equations, other) * (1 + 1e-12));
            }
        }
    }
}

TEST_CASE("an unknown that no reading depends on is 0, and so is one of two that say the same") {
    const std::vector<Equation> equations = {{{2, 0, 4}, 2.0}, {{1, 0, 2}, 1.0}};
    const std::vector<double> found = non_negative_least_squares(equations, 3);
    CHECK(found[1] == 0.0);
    CHECK(2 * found[0] + 4 * found[2] == doctest::Approx(2.0));
    CHECK(found[0] * found[2] == 0.0);
}

}  // namespace oomb::simulator
