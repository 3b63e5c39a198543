#include "simulator/replay/fit.hpp"

#include <doctest/doctest.h>

#include <random>
#include <vector>

#include "runtime/core/error.hpp"
#include "tests/core/relative_error.hpp"

namespace oomb::test {

using simulator::Fit;
using simulator::Line;

TEST_CASE("points on a line give the line, whatever their size") {
    for (const double scale : {1.0, 1e6, 1e14}) {
        Fit fit;
        for (const double work : {1.0, 2.0, 5.0, 11.0}) {
            fit.add(work * scale, 3e-6 + 2e-5 * work);
        }
        const Line line = fit.line();
        CHECK(relative_error(line.constant_seconds, 3e-6) <= 1e-9);
        CHECK(relative_error(line.unit_seconds * scale, 2e-5) <= 1e-9);
        CHECK(relative_error(line.at(7 * scale), 1.43e-4) <= 1e-9);
    }
}

TEST_CASE("no part of a line is negative, and it keeps the sum of what was measured") {
    std::mt19937_64 random(5);
    std::uniform_real_distribution<double> seconds(0.0, 1.0);
    for (int i = 0; i < 200; ++i) {
        Fit fit;
        double sum = 0, found = 0;
        std::vector<double> works;
        for (int sample = 0; sample < 1 + i % 7; ++sample) {
            works.push_back(i % 3 == 0 ? 4e9 : static_cast<double>(random() % 1000) * 1e7);
            const double measured = seconds(random);
            fit.add(works.back(), measured);
            sum += measured;
        }
        const Line line = fit.line();
        for (const double work : works) {
            found += line.at(work);
        }
        CHECK(line.constant_seconds >= 0);
        CHECK(line.unit_seconds >= 0);
        CHECK(found == doctest::Approx(sum).epsilon(1e-9));
    }
}

TEST_CASE("one size gives seconds in proportion, no size their mean, no sample an error") {
    Fit fit;
    CHECK(fit.empty());
    CHECK_THROWS_AS(fit.line(), InternalError);
    fit.add(10, 1);
    fit.add(10, 3);
    CHECK(fit.line().at(20) == doctest::Approx(4));
    Fit nothing;
    nothing.add(0, 1);
    nothing.add(0, 2);
    CHECK(nothing.line().at(100) == doctest::Approx(1.5));
}

}  // namespace oomb::test
