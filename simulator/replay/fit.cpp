#include "simulator/replay/fit.hpp"

#include "runtime/core/error.hpp"

namespace oomb::simulator {

// Welford's update: sums of squares of FLOPs would lose what differs.
void Fit::add(double work, double seconds) {
    ++samples_;
    const double away = work - mean_work_;
    mean_work_ += away / static_cast<double>(samples_);
    mean_seconds_ += (seconds - mean_seconds_) / static_cast<double>(samples_);
    work_variance_ += away * (work - mean_work_);
    covariance_ += away * (seconds - mean_seconds_);
}

Line Fit::line() const {
    require(samples_ > 0, "no line through nothing");
    constexpr double kSame = 1e-6;  // of the mean: one size, rounded
    if (mean_work_ <= 0) {
        return {mean_seconds_, 0.0};
    }
    const double deviation = kSame * mean_work_;
    if (work_variance_ > static_cast<double>(samples_) * deviation * deviation) {
        const double slope = covariance_ / work_variance_;
        const double constant = mean_seconds_ - slope * mean_work_;
        if (slope >= 0 && constant >= 0) {
            return {constant, slope};
        }
    }
    return {0.0, mean_seconds_ / mean_work_};
}

}  // namespace oomb::simulator
