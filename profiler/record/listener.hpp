#pragma once
// What CUPTI calls at once, on the program's own threads: NVTX ranges, which say which operation calls belong to and
// where steps begin and end, and contexts, which say which devices are used.

#include <cupti.h>
#include <nvtx3/nvToolsExt.h>

#include <atomic>
#include <mutex>
#include <unordered_set>

#include "profiler/record/kind_switch.hpp"
#include "profiler/record/step_watch.hpp"

namespace oomb::profiler {

// One of a session. Never destroyed: a call may be on its way when the session is over.
class Listener {
  public:
    // `kinds` is never destroyed either; the window's steps switch it.
    Listener(const RecordingRequest& request, KindSwitch& kinds);

    // Asks CUPTI for the calls that the request needs; what is refused comes back.
    std::vector<Refusal> listen(CUpti_SubscriberHandle subscriber);
    static void CUPTIAPI call(void* listener, CUpti_CallbackDomain domain, CUpti_CallbackId id, const void* data);

    // Operations of which CUPTI did not take or give back the number.
    std::int64_t refused_marks() const { return refused_marks_; }
    std::int64_t seen_steps() const;

  private:
    void hear_range(CUpti_CallbackId id, const CUpti_NvtxData& data);
    void hear_push(const void* domain, const nvtxEventAttributes_t& range);
    void hear_start(const nvtxEventAttributes_t& range, const void* id);
    void hear_pop(const void* domain);
    void hear_end(std::uint64_t id);
    void hear_string(const char* text, const void* handle);
    void push_mark(const void* domain, std::uint64_t operation);
    void pop_mark(const void* domain);
    bool is_step(const nvtxEventAttributes_t& range) const;
    void move(WindowEvent event);

    RecordingRequest request_;
    KindSwitch& kinds_;
    std::atomic<std::int64_t> refused_marks_{0};
    std::atomic<bool> watching_;  // for the window's steps
    mutable std::mutex mutex_;    // of all below
    StepWatch watch_;
    std::unordered_set<const void*> step_names_;  // registered strings that are the name of a step
};

}  // namespace oomb::profiler
