#include "simulator/calibration/submit_fit.hpp"

#include "runtime/core/error.hpp"
#include "simulator/step/prediction.hpp"

namespace oomb::simulator {

void fit_submit(const UntracedStep& step, const std::string& source, HardwareProfile& profile) {
    profile.submit = {0.0, fmt::format("{}; a step of {:.3f} s that was not traced", source, step.seconds)};
    const auto seconds_with = [&](double submit) {
        profile.submit.seconds = submit;
        return predict_step(step.plan, profile).seconds;
    };
    double low = 0.0, high = 1e-3;
    if (seconds_with(low) >= step.seconds) {
        profile.submit.seconds = 0.0;
        return;
    }
    if (const double most = seconds_with(high); most < step.seconds) {
        fail<FileError>(
            "submit: a step that was not traced took {:.3f} s, and no more than {:.3f} s can be explained, with {:.0f} "
            "us "
            "for each kernel; see that nothing else runs on the machine, and measure again",
            step.seconds, most, high * 1e6);
    }
    constexpr int kHalvings = 24;  // to some hundred picoseconds
    for (int i = 0; i < kHalvings; ++i) {
        const double middle = (low + high) / 2;
        (seconds_with(middle) < step.seconds ? low : high) = middle;
    }
    profile.submit.seconds = low;
}

}  // namespace oomb::simulator
