#include "profiler/record/session.hpp"

#include <cupti.h>
#include <dlfcn.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <optional>
#include <thread>
#include <utility>

#include "profiler/record/decode.hpp"
#include "profiler/record/driver_devices.hpp"
#include "profiler/record/exchange.hpp"
#include "profiler/record/explain.hpp"
#include "profiler/record/guarded_writing.hpp"
#include "profiler/record/listener.hpp"
#include "runtime/core/error.hpp"
#include "runtime/core/units.hpp"
#include "runtime/trace/names.hpp"

namespace oomb::profiler {
namespace {

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

using Clock = std::chrono::steady_clock;

Clock::duration of_seconds(double seconds) {
    constexpr double kMost = 1e9;  // 30 years
    return std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(std::min(seconds, kMost)));
}

}  // namespace

class Session::Recorder {
  public:
    explicit Recorder(const SessionOptions& options) : options_(options) {
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
            decoder_.emplace(versions_.cupti, sink_, options.request.calls);
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
        if (!concluded_) {
            conclude();
        }
        guarded_.tell();
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
            exchange().stopping = exchange().window_moved = false;
        }
        started_ = true;
        const RecordingWindow& window = options_.request.window;
        const Clock::time_point begin = Clock::now() + of_seconds(window.start_after_seconds);
        if (window.start_after_seconds > 0) {
            begin_at_ = begin;
        }
        if (window.seconds) {
            end_at_ = begin + of_seconds(*window.seconds);
        }
        check(cuptiSubscribe(&subscriber_, Listener::call, listener_), "recording");
        check(cuptiActivityRegisterCallbacks(on_buffer_requested, on_buffer_completed), "recording");
        cuptiSetThreadIdType(CUPTI_ACTIVITY_THREAD_ID_TYPE_SYSTEM);  // where it is refused, threads have other numbers
        for (const Refusal& refusal : listener_->listen(subscriber_)) {
            note_refusal(refusal);
        }
        kinds_->start();
        for (const Refusal& refusal : kinds_->take_refusals()) {
            if (refusal.required) {
                check(refusal.result, fmt::format("recording {}", refusal.what).c_str());
            }
            note_refusal(refusal);
        }
    }

    void note(const std::string& text) { writer_->add(Note{writer_->intern(text)}); }

    void note_refusal(const Refusal& refusal) {
        note(explain(refusal.result, fmt::format("{} are not recorded", refusal.what), versions_));
    }

    void stop_recording() {
        if (!started_) {
            return;
        }
        kinds_->off();
        if (subscriber_ != nullptr) {
            cuptiUnsubscribe(std::exchange(subscriber_, nullptr));
        }
    }

    // Everything that is there goes to the file, and the file is closed.
    void conclude() {
        concluded_ = true;
        guarded_([&] {
            flush_activity(CUPTI_ACTIVITY_FLAG_FLUSH_FORCED);
            write_completed();
        });
        stop_recording();
        guarded_([&] {
            write_completed();
            if (!decoder_->saw_device()) {  // CUPTI tells of devices when CUDA begins: that was before this session
                add_driver_devices(sink_);
            }
            write_losses();
            write_notes();
            writer_->close();
        });
        release();
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

    void write_notes() {
        for (const Refusal& refusal : kinds_->take_refusals()) {
            note_refusal(refusal);
        }
        if (const std::int64_t refused = listener_->refused_marks(); refused > 0) {
            note(fmt::format("CUPTI refused the marks of {} operations: work may be attributed to none", refused));
        }
        const RecordingWindow& window = options_.request.window;
        if (kinds_->begin_ns() == 0 && window.steps) {
            note(fmt::format("steps {} were to be recorded, and the program came to step {}: nothing is recorded{}",
                             to_text(*window.steps), listener_->seen_steps(),
                             listener_->seen_steps() == 0 ? "; steps are the NVTX ranges of oomb-train, or those that "
                                                            "--step-range names, after CUDA's start"
                                                          : ""));
        } else if (kinds_->begin_ns() == 0) {
            note("the program ended before the time to be recorded began");
        } else if (!window.everything()) {
            note(window.steps ? fmt::format("only steps {} are recorded", to_text(*window.steps))
                              : fmt::format("only a part of the run is recorded, {} from {} after its start on",
                                            window.seconds ? format_duration(*window.seconds) : "all",
                                            format_duration(window.start_after_seconds)));
        }
    }

    // The thread that reads records, and that asks CUPTI for them when a period is over.
    void work() {
        while (!concluded_) {
            const bool stopping = wait();
            write_completed();
            if (stopping) {
                return;
            }
            move_window();
            if (Clock::now() >= next_flush_) {
                flush_period();
            }
            if (kinds_->is_off() && is_drained()) {
                conclude();
            }
        }
    }

    // CUPTI holds no buffer, and has not brought one for a while: one more would come late.
    bool is_drained() const {
        constexpr std::chrono::milliseconds kQuiet{500};
        const Clock::time_point now = Clock::now();
        return now >= drained_at_ || (exchange().pool.taken() == 0 && now >= last_arrival_ + kQuiet);
    }

    // Until something arrived or is due. True: the session is to end.
    bool wait() {
        Clock::time_point next = next_flush_;
        for (const std::optional<Clock::time_point>& border : {begin_at_, end_at_}) {
            next = std::min(next, border.value_or(next));
        }
        std::unique_lock lock(exchange().mutex);
        exchange().arrived.wait_until(lock, next, [] {
            const Exchange& shared = exchange();
            return shared.stopping || shared.window_moved || !shared.completed.empty();
        });
        exchange().window_moved = false;
        return exchange().stopping;
    }

    // Begins and ends a window of time, and looks after the end of any.
    void move_window() {
        if (begin_at_ && Clock::now() >= *begin_at_) {
            begin_at_.reset();
            kinds_->on();
        }
        if (end_at_ && Clock::now() >= *end_at_) {
            end_at_.reset();
            kinds_->off();
        }
        if (kinds_->is_off() && !std::exchange(draining_, true)) {
            last_arrival_ = next_flush_ = Clock::now();
            drained_at_ = last_arrival_ + kMostDrain;
        }
    }

    void flush_period() {
        guarded_([&] {
            flush_activity(0);
            write_completed();
            write_losses();
            writer_->flush();
        });
        constexpr std::chrono::milliseconds kDrainPeriod{50};
        next_flush_ = Clock::now() + (draining_ ? kDrainPeriod : options_.period);
    }

    void write_completed() {
        if (options_.request.window.begins_late()) {
            constexpr std::int64_t kSlack_ns = 1'000'000;  // the range that begins the window is older than it
            const std::int64_t begin_ns = kinds_->begin_ns();
            decoder_->keep_markers_from(begin_ns == 0 ? kMostNumber : begin_ns - kSlack_ns);
        }
        std::vector<CompletedBuffer> list;
        {
            const std::lock_guard lock(exchange().mutex);
            list.swap(exchange().completed);
        }
        last_arrival_ = list.empty() ? last_arrival_ : Clock::now();
        for (const CompletedBuffer& done : list) {
            guarded_([&] { decoder_->decode_buffer(done.buffer, done.valid_bytes); });
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

    SessionOptions options_;
    pid_t process_ = getpid();
    Versions versions_ = versions_here();
    std::optional<ProfileWriter> writer_;
    RecordSink sink_{[this](const Record& record) { writer_->add(record); },
                     [this](std::string_view text) { return writer_->intern(text); }};
    std::optional<Decoder> decoder_;
    // Callbacks may come when this is gone.
    KindSwitch* kinds_ = new KindSwitch(options_.request);
    Listener* listener_ = new Listener(options_.request, *kinds_);
    CUpti_SubscriberHandle subscriber_ = nullptr;
    bool started_ = false, concluded_ = false;
    bool flush_told_ = false, dropped_told_ = false;
    std::int64_t told_bytes_ = 0;
    GuardedWriting guarded_{[](const std::string& failure) {
        std::fputs(fmt::format("oomb-profile: recording ends here: {}\n", failure).c_str(), stderr);
    }};

    Clock::time_point next_flush_ = Clock::now() + options_.period;
    std::optional<Clock::time_point> begin_at_, end_at_;  // of a window of time, as long as they are to come
    bool draining_ = false;                               // the window is over, work of it may still run
    Clock::time_point drained_at_, last_arrival_;
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
