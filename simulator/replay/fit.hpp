#pragma once
// A straight line through what was measured: a constant, and so much for each unit of work.

#include <cstdint>

namespace oomb::simulator {

struct Line {
    double constant_seconds = 0.0;
    double unit_seconds = 0.0;  // per FLOP or byte

    double at(double work) const { return constant_seconds + unit_seconds * work; }
};

// Sums over samples. Its line keeps their sum: as many seconds in all as were measured.
class Fit {
  public:
    void add(double work, double seconds);
    bool empty() const { return samples_ == 0; }

    // The line of least squares. Neither part of it is ever negative: where one would be, or where all samples have the
    // same work, seconds are in proportion to the work. InternalError for an empty fit.
    Line line() const;

  private:
    std::int64_t samples_ = 0;
    double mean_work_ = 0.0, mean_seconds_ = 0.0;
    double work_variance_ = 0.0, covariance_ = 0.0;  // sums
};

}  // namespace oomb::simulator
