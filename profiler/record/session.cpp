#include "profiler/record/session.hpp"

#include <cupti.h>
#include <dlfcn.h>
#include <fmt/format.h>
#include <generated_nvtx_meta.h>
#include <unistd.h>

#include <atomic>
#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <optional>
#include <thread>
#include <utility>

#include "profiler/record/buffer_pool.hpp"
#include "profiler/record/decode.hpp"
#include "profiler/record/explain.hpp"
#include "runtime/core/error.hpp"
#include "runtime/trace/names.hpp"
#include "runtime/trace/operation_marks.hpp"

namespace oomb::profiler {
namespace {

struct CompletedBuffer {
    std::uint8_t* buffer = nullptr;
    std::size_t valid_bytes = 0;
};

// What CUPTI's callbacks reach, which know of no object: made once and never destroyed, for they may come as late as
// the driver's own end.
struct Exchange {
    BufferPool pool{BufferPool::Options{}};
    std::mutex mutex;
    std::condition_variable arrived;
    std::vector<CompletedBuffer> completed;
    bool stopping = false;
    bool in_use = false;                         // by a session
    std::atomic<std::int64_t> refused_marks{0};  // operations of which CUPTI did not take or give back the number
};

Exchange& exchange() {
    static auto* shared = new Exchange;
    return *shared;
}

void CUPTIAPI on_buffer_requested(std::uint8_t** buffer, std::size_t* bytes, std::size_t* most_records) {
    *buffer = exchange().pool.take();
    *bytes = *buffer == nullptr ? 0 : exchange().pool.buffer_bytes();
    *most_records = 0;
}

// Comes on a thread of CUPTI's or of the program: reading the records is left to ours.
void CUPTIAPI on_buffer_completed(CUcontext, std::uint32_t, std::uint8_t* buffer, std::size_t,
                                  std::size_t valid_bytes) {
    Exchange& shared = exchange();
    {
        const std::lock_guard lock(shared.mutex);
        if (!shared.in_use) {  // late, of a session that is over: none of the next one's
            shared.pool.give(buffer);
            return;
        }
        shared.completed.push_back({buffer, valid_bytes});
    }
    shared.arrived.notify_one();
}

thread_local nvtxDomainHandle_t mark_domain = nullptr;
thread_local int mark_depth = 0;

// Calls within the range of an operation are correlated with it. Other ranges are none of ours.
void CUPTIAPI on_nvtx(void*, CUpti_CallbackDomain, CUpti_CallbackId call, const void* data) {
    const void* parameters = static_cast<const CUpti_NvtxData*>(data)->functionParams;
    if (call == CUPTI_CBID_NVTX_nvtxDomainRangePushEx) {
        const auto& push = *static_cast<const nvtxDomainRangePushEx_params*>(parameters);
        const nvtxEventAttributes_t* range = push.core.eventAttrib;
        if (range != nullptr && range->category == trace::kMarkCategory &&
            range->payloadType == NVTX_PAYLOAD_TYPE_UNSIGNED_INT64) {
            if (cuptiActivityPushExternalCorrelationId(kOperationCorrelation, range->payload.ullValue) !=
                CUPTI_SUCCESS) {
                exchange().refused_marks += 1;
                return;
            }
            mark_domain = push.domain;
            ++mark_depth;
        }
    } else if (call == CUPTI_CBID_NVTX_nvtxDomainRangePop && mark_depth > 0 &&
               static_cast<const nvtxDomainRangePop_params*>(parameters)->domain == mark_domain) {
        std::uint64_t popped = 0;
        --mark_depth;
        if (cuptiActivityPopExternalCorrelationId(kOperationCorrelation, &popped) != CUPTI_SUCCESS) {
            exchange().refused_marks += 1;
        }
    }
}

// CUDA's programs load it by name, and so does this: nothing here links against a driver.
std::int64_t driver_version() {
    void* driver = dlopen("libcuda.so.1", RTLD_LAZY | RTLD_LOCAL);
    int version = 0;
    if (driver != nullptr) {
        if (auto* get = reinterpret_cast<CUresult (*)(int*)>(dlsym(driver, "cuDriverGetVersion")); get != nullptr) {
            get(&version);
        }
    }
    return version;
}

struct RecordKind {
    CUpti_ActivityKind kind;
    const char* text;
    bool required = false;
    bool for_operations = false;  // only where work is attributed to operations
};
// Devices first: their records are made when CUDA starts.
constexpr RecordKind kRecordKinds[] = {
    {CUPTI_ACTIVITY_KIND_DEVICE, "devices"},
    {CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL, "kernels", true},
    {CUPTI_ACTIVITY_KIND_MEMCPY, "copies", true},
    {CUPTI_ACTIVITY_KIND_MEMCPY2, "copies between devices"},
    {CUPTI_ACTIVITY_KIND_MEMSET, "memsets"},
    {CUPTI_ACTIVITY_KIND_MEMORY2, "allocations"},
    {CUPTI_ACTIVITY_KIND_SYNCHRONIZATION, "synchronisation"},
    {CUPTI_ACTIVITY_KIND_OVERHEAD, "overhead"},
    {CUPTI_ACTIVITY_KIND_MARKER, "NVTX ranges"},
    {CUPTI_ACTIVITY_KIND_EXTERNAL_CORRELATION, "operations", false, true},
    // An external correlation is told only beside the record of a call.
    {CUPTI_ACTIVITY_KIND_RUNTIME, "calls of the runtime", false, true},
    {CUPTI_ACTIVITY_KIND_DRIVER, "calls of the driver", false, true},
};

}  // namespace

class Session::Recorder {
  public:
    explicit Recorder(const SessionOptions& options) : options_(options) {
        cuptiGetVersion(&versions_.cupti);
        versions_.driver = driver_version();
        std::uint64_t now = 0;
        cuptiGetTimestamp(&now);
        writer_.emplace(options.out, SessionHeader{.program = options.program,
                                                   .command = options.command,
                                                   .process = getpid(),
                                                   .begin_ns = static_cast<std::int64_t>(now),
                                                   .cupti_version = versions_.cupti,
                                                   .driver_version = versions_.driver,
                                                   .operation_kinds = trace::kind_names()});
        try {
            decoder_.emplace(versions_.cupti,
                             RecordSink{[this](const Record& record) { writer_->add(record); },
                                        [this](std::string_view text) { return writer_->intern(text); }});
            start();
            worker_ = std::thread([this] { work(); });
        } catch (...) {
            stop_recording();
            release();
            std::error_code ignored;
            std::filesystem::remove(options.out, ignored);
            throw;
        }
    }

    ~Recorder() {
        // A child made by fork has this object, but not its thread.
        if (getpid() != process_ && worker_.joinable()) {
            worker_.detach();
        }
    }

    bool of_this_process() const { return getpid() == process_; }

    void finish() {
        {
            const std::lock_guard lock(exchange().mutex);
            exchange().stopping = true;
        }
        exchange().arrived.notify_one();
        worker_.join();
        guarded([&] {
            flush_activity(CUPTI_ACTIVITY_FLAG_FLUSH_FORCED);
            write_completed();
        });
        stop_recording();
        guarded([&] {
            write_completed();
            write_losses();
            write_refused_marks();
            writer_->close();
        });
        release();
        if (failure_) {
            throw FileError(*failure_);
        }
    }

  private:
    void check(CUptiResult result, const char* call) const {
        if (result != CUPTI_SUCCESS) {
            throw UnsupportedError(explain(result, call, versions_));
        }
    }

    void start() {
        {
            const std::lock_guard lock(exchange().mutex);
            if (std::exchange(exchange().in_use, true)) {
                fail<UnsupportedError>("this process is being recorded already");
            }
            exchange().stopping = false;
            exchange().refused_marks = 0;
        }
        started_ = true;
        check(cuptiSubscribe(&subscriber_, on_nvtx, nullptr), "recording");
        check(cuptiActivityRegisterCallbacks(on_buffer_requested, on_buffer_completed), "recording");
        cuptiSetThreadIdType(CUPTI_ACTIVITY_THREAD_ID_TYPE_SYSTEM);  // where it is refused, threads have other numbers
        for (const RecordKind& kind : kRecordKinds) {
            if (!kind.for_operations || options_.operations) {
                enable(kind);
            }
        }
        if (options_.operations) {
            for (const CUpti_CallbackId call :
                 {CUPTI_CBID_NVTX_nvtxDomainRangePushEx, CUPTI_CBID_NVTX_nvtxDomainRangePop}) {
                note_if_refused(cuptiEnableCallback(1, subscriber_, CUPTI_CB_DOMAIN_NVTX, call), "operations");
            }
        }
    }

    void enable(const RecordKind& kind) {
        const CUptiResult result = cuptiActivityEnable(kind.kind);
        if (kind.required) {
            check(result, fmt::format("recording {}", kind.text).c_str());
        }
        note_if_refused(result, kind.text);
    }

    void note_if_refused(CUptiResult result, const char* what) {
        if (result != CUPTI_SUCCESS) {
            writer_->add(Note{writer_->intern(explain(result, fmt::format("{} are not recorded", what), versions_))});
        }
    }

    void stop_recording() {
        if (!started_) {
            return;
        }
        for (const RecordKind& kind : kRecordKinds) {
            cuptiActivityDisable(kind.kind);
        }
        if (subscriber_ != nullptr) {
            cuptiUnsubscribe(std::exchange(subscriber_, nullptr));
        }
    }

    // Another session may follow. What nobody read (the writing had failed) goes back as it is.
    void release() {
        if (!std::exchange(started_, false)) {
            return;
        }
        const std::lock_guard lock(exchange().mutex);
        for (const CompletedBuffer& unread : exchange().completed) {
            exchange().pool.give(unread.buffer);
        }
        exchange().completed.clear();
        exchange().in_use = false;
    }

    // Each is told once: the next period would find the same.
    void note_once(CUptiResult result, bool& told, const char* what) {
        if (result != CUPTI_SUCCESS && !std::exchange(told, true)) {
            writer_->add(Note{writer_->intern(explain(result, what, versions_))});
        }
    }

    void flush_activity(std::uint32_t flag) {
        note_once(cuptiActivityFlushAll(flag), flush_told_, "records that CUPTI still held may be missing");
    }

    void write_refused_marks() {
        if (const std::int64_t refused = exchange().refused_marks; refused > 0) {
            writer_->add(Note{writer_->intern(
                fmt::format("CUPTI refused the marks of {} operations: work may be attributed to none", refused))});
        }
    }

    // The thread that reads records, and that asks CUPTI for them when a period is over.
    void work() {
        auto next_flush = std::chrono::steady_clock::now() + options_.period;
        for (bool stopping = false; !stopping;) {
            {
                std::unique_lock lock(exchange().mutex);
                exchange().arrived.wait_until(lock, next_flush,
                                              [] { return exchange().stopping || !exchange().completed.empty(); });
                stopping = exchange().stopping;
            }
            write_completed();
            if (!stopping && std::chrono::steady_clock::now() >= next_flush) {
                guarded([&] {
                    flush_activity(0);
                    write_completed();
                    write_losses();
                    writer_->flush();
                });
                next_flush = std::chrono::steady_clock::now() + options_.period;
            }
        }
    }

    void write_completed() {
        std::vector<CompletedBuffer> list;
        {
            const std::lock_guard lock(exchange().mutex);
            list.swap(exchange().completed);
        }
        for (const CompletedBuffer& done : list) {
            if (!failure_) {
                guarded([&] { decoder_->decode_buffer(done.buffer, done.valid_bytes); });
            }
            exchange().pool.give(done.buffer);
        }
    }

    void write_losses() {
        std::size_t dropped = 0;  // since it was asked last
        note_once(cuptiActivityGetNumDroppedRecords(nullptr, 0, &dropped), dropped_told_,
                  "how many records were dropped is not known");
        const std::int64_t unreadable =
            decoder_->unreadable_bytes() - std::exchange(told_bytes_, decoder_->unreadable_bytes());
        if (dropped > 0 || unreadable > 0) {
            writer_->add(Losses{static_cast<std::int64_t>(dropped), unreadable});
        }
    }

    // The program goes on when its recording cannot: the first failure ends the writing and is told at the end.
    void guarded(const auto& write) {
        if (failure_) {
            return;
        }
        try {
            write();
        } catch (const std::exception& error) {
            failure_ = error.what();
            std::fputs(fmt::format("oomb-profile: recording ends here: {}\n", *failure_).c_str(), stderr);
        }
    }

    SessionOptions options_;
    pid_t process_ = getpid();
    Versions versions_;
    std::optional<ProfileWriter> writer_;
    std::optional<Decoder> decoder_;
    CUpti_SubscriberHandle subscriber_ = nullptr;
    bool started_ = false;
    bool flush_told_ = false, dropped_told_ = false;
    std::int64_t told_bytes_ = 0;
    std::optional<std::string> failure_;
    std::thread worker_;
};

// NVTX looks for its listener at a program's first mark: it is to find CUPTI.
Session::Session(const SessionOptions& options) {
    if (Dl_info info{}; dladdr(reinterpret_cast<const void*>(&cuptiGetVersion), &info) != 0) {
        setenv("NVTX_INJECTION64_PATH", info.dli_fname, 0);
    }
    recorder_ = std::make_unique<Recorder>(options);
}

Session::~Session() {
    try {
        finish();
    } catch (const std::exception& error) {
        std::fputs(fmt::format("oomb-profile: {}\n", error.what()).c_str(), stderr);
    }
}

void Session::finish() {
    if (const std::unique_ptr<Recorder> recorder = std::move(recorder_); recorder && recorder->of_this_process()) {
        recorder->finish();
    }
}

}  // namespace oomb::profiler
