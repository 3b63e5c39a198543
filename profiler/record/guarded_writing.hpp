#pragma once
// What goes on beside a program that knows nothing of it must not end it: a failure is kept, and told at the end.

#include <functional>
#include <optional>
#include <string>
#include <utility>

#include "runtime/core/error.hpp"

namespace oomb::profiler {

// For one thread at a time.
class GuardedWriting {
  public:
    // `on_failure`, if there is one, is told the failure when it happens.
    explicit GuardedWriting(std::function<void(const std::string& failure)> on_failure = {})
        : on_failure_(std::move(on_failure)) {}

    // Runs `write`, which writes to the recording, unless an earlier one threw: nothing is written after a failure.
    void operator()(const auto& write) {
        if (failure_) {
            return;
        }
        try {
            write();
        } catch (const std::exception& error) {
            failure_ = error.what();
            if (on_failure_) {
                on_failure_(*failure_);
            }
        }
    }

    // Throws FileError with what failed, if anything did.
    void tell() const {
        if (failure_) {
            throw FileError(*failure_);
        }
    }

  private:
    std::function<void(const std::string&)> on_failure_;
    std::optional<std::string> failure_;
};

}  // namespace oomb::profiler
