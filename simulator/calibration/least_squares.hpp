#pragma once
// Numbers that are not negative and explain readings best.

#include <vector>

namespace oomb::simulator {

// One reading: sum of coefficient[j] x[j] should be `value`. `weight` > 0 multiplies the square of what is missed.
struct Equation {
    std::vector<double> coefficients;
    double value = 0.0;
    double weight = 1.0;
};

// The x >= 0 with the least sum of weighted squares (Lawson and Hanson, Solving Least Squares Problems, 1974, chapter
// 23). All equations have `unknowns` coefficients. An unknown that no reading depends on is 0. InternalError where
// numbers are not finite.
std::vector<double> non_negative_least_squares(const std::vector<Equation>& equations, std::size_t unknowns);

}  // namespace oomb::simulator
