#pragma once
// How far a number is from what it should be. doctest's Approx compares with 1 + the larger number, so that of seconds,
// far less than 1, it lets nearly all pass.

#include <cmath>
#include <limits>

namespace oomb::test {

inline double relative_error(double found, double expected) {
    if (found == expected) {
        return 0.0;
    }
    return expected == 0.0 ? std::numeric_limits<double>::infinity() : std::abs(found / expected - 1);
}

}  // namespace oomb::test
