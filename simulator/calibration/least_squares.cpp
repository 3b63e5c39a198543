#include "simulator/calibration/least_squares.hpp"

#include <algorithm>
#include <cmath>

#include "runtime/core/error.hpp"

namespace oomb::simulator {
namespace {

// Columns scaled to length 1, so that seconds per FLOP and seconds per call weigh alike; factored anew for every set
// of unknowns that may be positive, for there are a handful.
class Problem {
  public:
    Problem(const std::vector<Equation>& equations, std::size_t unknowns) : unknowns_(unknowns) {
        for (const Equation& equation : equations) {
            require(equation.coefficients.size() == unknowns, "{} coefficients for {} unknowns",
                    equation.coefficients.size(), unknowns);
            const double root = std::sqrt(equation.weight);
            std::vector<double> row;
            for (const double coefficient : equation.coefficients) {
                row.push_back(root * coefficient);
            }
            rows_.push_back(std::move(row));
            values_.push_back(root * equation.value);
        }
        for (std::size_t j = 0; j < unknowns; ++j) {
            double squares = 0.0;
            for (const auto& row : rows_) {
                squares += row[j] * row[j];
            }
            require(std::isfinite(squares), "readings that are not finite");
            lengths_.push_back(std::sqrt(squares));
            for (auto& row : rows_) {
                row[j] = lengths_[j] > 0 ? row[j] / lengths_[j] : 0.0;
            }
        }
    }

    // Of the squares: half the negative gradient at x.
    std::vector<double> descent(const std::vector<double>& x) const {
        std::vector<double> result(unknowns_, 0.0);
        for (std::size_t i = 0; i < rows_.size(); ++i) {
            double missed = values_[i];
            for (std::size_t j = 0; j < unknowns_; ++j) {
                missed -= rows_[i][j] * x[j];
            }
            for (std::size_t j = 0; j < unknowns_; ++j) {
                result[j] += rows_[i][j] * missed;
            }
        }
        return result;
    }

    // The best x whose other entries are 0: QR by Gram and Schmidt, each column made orthogonal twice.
    std::vector<double> solve(const std::vector<bool>& free) const {
        std::vector<std::size_t> columns;
        for (std::size_t j = 0; j < unknowns_; ++j) {
            if (free[j]) {
                columns.push_back(j);
            }
        }
        const std::size_t n = columns.size();
        std::vector<std::vector<double>> q, r(n, std::vector<double>(n, 0.0));
        std::vector<double> projected(n, 0.0);
        for (std::size_t j = 0; j < n; ++j) {
            std::vector<double> column;
            for (const auto& row : rows_) {
                column.push_back(row[columns[j]]);
            }
            for (int pass = 0; pass < 2; ++pass) {
                for (std::size_t i = 0; i < j; ++i) {
                    const double along = dot(q[i], column);
                    r[i][j] += along;
                    subtract(column, along, q[i]);
                }
            }
            r[j][j] = std::sqrt(dot(column, column));
            for (double& entry : column) {
                entry = r[j][j] > kDependent ? entry / r[j][j] : 0.0;
            }
            q.push_back(std::move(column));
            projected[j] = dot(q[j], values_);
        }
        std::vector<double> x(unknowns_, 0.0);
        for (std::size_t j = n; j-- > 0;) {
            double rest = projected[j];
            for (std::size_t k = j + 1; k < n; ++k) {
                rest -= r[j][k] * x[columns[k]];
            }
            x[columns[j]] = r[j][j] > kDependent ? rest / r[j][j] : 0.0;
        }
        return x;
    }

    bool used(std::size_t unknown) const { return lengths_[unknown] > 0; }
    double unscaled(std::size_t unknown, double x) const { return used(unknown) ? x / lengths_[unknown] : 0.0; }

  private:
    static constexpr double kDependent = 1e-12;  // what is left of a column of length 1 that others make up

    static double dot(const std::vector<double>& a, const std::vector<double>& b) {
        double sum = 0.0;
        for (std::size_t i = 0; i < a.size(); ++i) {
            sum += a[i] * b[i];
        }
        return sum;
    }
    static void subtract(std::vector<double>& from, double factor, const std::vector<double>& what) {
        for (std::size_t i = 0; i < from.size(); ++i) {
            from[i] -= factor * what[i];
        }
    }

    std::size_t unknowns_;
    std::vector<std::vector<double>> rows_;
    std::vector<double> values_, lengths_;
};

// From x towards `wanted` until the first free unknown reaches 0; that one is no longer free.
void go_towards(std::vector<double>& x, const std::vector<double>& wanted, std::vector<bool>& free) {
    double step = 1.0;
    std::size_t first = x.size();
    for (std::size_t j = 0; j < x.size(); ++j) {
        if (free[j] && wanted[j] <= 0) {
            const double reaches = x[j] > 0 ? x[j] / (x[j] - wanted[j]) : 0.0;
            if (first == x.size() || reaches < step) {
                step = reaches;
                first = j;
            }
        }
    }
    for (std::size_t j = 0; j < x.size(); ++j) {
        x[j] = std::max(0.0, x[j] + step * (wanted[j] - x[j]));
    }
    x[first] = 0.0;
    free[first] = false;
}

}  // namespace

std::vector<double> non_negative_least_squares(const std::vector<Equation>& equations, std::size_t unknowns) {
    const Problem problem(equations, unknowns);
    std::vector<double> x(unknowns, 0.0);
    std::vector<bool> free(unknowns, false);
    constexpr double kFlat = 1e-14;
    // Each round frees one unknown; more than a few rounds per unknown would be rounding going in circles.
    for (std::size_t round = 0; round < 3 * unknowns; ++round) {
        const std::vector<double> descent = problem.descent(x);
        std::size_t steepest = unknowns;
        for (std::size_t j = 0; j < unknowns; ++j) {
            if (!free[j] && problem.used(j) && descent[j] > kFlat &&
                (steepest == unknowns || descent[j] > descent[steepest])) {
                steepest = j;
            }
        }
        if (steepest == unknowns) {
            break;
        }
        free[steepest] = true;
        for (std::vector<double> wanted = problem.solve(free);; wanted = problem.solve(free)) {
            bool whole = true;
            for (std::size_t j = 0; j < unknowns; ++j) {
                whole = whole && (!free[j] || wanted[j] > 0);
            }
            if (whole) {
                x = wanted;
                break;
            }
            go_towards(x, wanted, free);
        }
    }
    for (std::size_t j = 0; j < unknowns; ++j) {
        x[j] = problem.unscaled(j, x[j]);
    }
    return x;
}

}  // namespace oomb::simulator
