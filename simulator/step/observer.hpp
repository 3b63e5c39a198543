#pragma once
// Who wants to see a simulated step operation by operation.

#include "runtime/issue/issued_operation.hpp"
#include "runtime/issue/issuer.hpp"
#include "runtime/issue/movement.hpp"

namespace oomb::simulator {

class StepObserver {
  public:
    virtual ~StepObserver() = default;
    // Before the first operation. The issuer outlives the step.
    virtual void begins(const issue::Issuer& issuer) = 0;
    // In program order; seconds since the step began.
    virtual void ran(const issue::IssuedOperation& issued, double begin, double end,
                     const issue::Movement& movement) = 0;
    // What comes next begins after everything so far.
    virtual void waited() {}
};

}  // namespace oomb::simulator
