#pragma once
// Turns the schedule into operations that can run: asks the residency state machines for frames, derives the waits,
// and hands the result on in program order. Trainer and simulator issue through this one class.

#include "runtime/issue/hazard_tracker.hpp"
#include "runtime/issue/issued_operation.hpp"
#include "runtime/issue/listed_pages.hpp"
#include "runtime/paging/residency.hpp"
#include "runtime/schedule/plan.hpp"

namespace oomb::issue {

class Issuer : public schedule::OperationSink {
  public:
    // All outlive the issuer. One issuer serves all sequences and steps of a run. `lists` may be null where no
    // operation has lists.
    Issuer(const schedule::Plan& plan, IssuedSink& sink, PageListSource* lists = nullptr);

    // A fetch or write back with nothing to move is not issued. Copies to and from a kept page whose home is HBM are
    // issued to the compute engine, whatever engine the schedule names. Blocks where an operation has lists that are
    // not on the host yet.
    void take(const schedule::Operation& operation) override;

    // What take() would hand on, into `issued`, whose memory is used again; false: nothing is issued. For who has no
    // need to keep it.
    bool issue(const schedule::Operation& operation, IssuedOperation& issued);

    const paging::Residency& residency(PageClass page_class) const {
        return residencies_[static_cast<int>(page_class)];
    }
    // For a simulation that leaves operations out (Residency::rename_cached, settle).
    paging::Residency& residency(PageClass page_class) { return residencies_[static_cast<int>(page_class)]; }
    std::uint64_t issued() const { return number_; }
    std::int64_t table_bytes() const;  // host bytes of page tables and hazard records, as Plan::page_table_bytes

  private:
    bool grant(IssuedOperation& issued);
    void track(const schedule::Operation& operation, const paging::Grant& grant, PageUse use);

    IssuedSink& sink_;
    ListedPages listed_;
    HazardTracker hazards_;
    std::vector<paging::Residency> residencies_;
    std::vector<paging::Grant> spare_;  // their memory
    std::uint64_t number_ = 0;
};

// The state machine of one class of pages, as the plan lays it out.
paging::ResidencyShape residency_shape(const schedule::Plan& plan, PageClass page_class);

}  // namespace oomb::issue
