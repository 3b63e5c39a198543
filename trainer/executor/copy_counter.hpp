#pragma once
// Counts what the schedule asks the copy engines to move, on the way from the issuer to the backend.

#include <array>
#include <utility>

#include "runtime/issue/movement.hpp"

namespace oomb::trainer {

class CopyCounter : public issue::IssuedSink {
  public:
    // Both outlive the counter.
    CopyCounter(const schedule::Plan& plan, issue::IssuedSink& next) : plan_(plan), next_(next) {}

    void take(issue::IssuedOperation operation) override {
        const issue::Movement moved = issue::movement_of(operation, plan_);
        issue::Movement& total = total_[static_cast<int>(operation.operation.engine)];
        total.bytes += moved.bytes;
        total.pages += moved.pages;
        next_.take(std::move(operation));
    }
    // Of everything issued so far.
    const issue::Movement& total(schedule::Engine engine) const { return total_[static_cast<int>(engine)]; }

  private:
    const schedule::Plan& plan_;
    issue::IssuedSink& next_;
    std::array<issue::Movement, schedule::kEngines> total_{};
};

}  // namespace oomb::trainer
