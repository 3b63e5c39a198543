#include "profiler/record/counter_recording.hpp"

#include <utility>

#include "profiler/record/driver_devices.hpp"
#include "runtime/core/error.hpp"

namespace oomb::profiler {

CounterRecording::CounterRecording(const std::filesystem::path& out, const SessionHeader& header)
    : writer_(out, header),
      sink_{[this](const Record& record) { writer_.add(record); },
            [this](std::string_view text) { return writer_.intern(text); }} {
    std::promise<void> begun;
    const std::future<void> has_begun = begun.get_future();
    worker_ = std::thread(&CounterRecording::work, this, std::move(begun));
    has_begun.wait();
}

CounterRecording::~CounterRecording() {
    join();
}

void CounterRecording::finish() {
    join();
    guarded_([&] { writer_.close(); });
    guarded_.tell();
}

void CounterRecording::join() {
    if (!worker_.joinable()) {
        return;
    }
    {
        const std::lock_guard lock(mutex_);
        stopping_ = true;
    }
    stop_asked_.notify_one();
    worker_.join();
}

void CounterRecording::work(std::promise<void> begun) {
    guarded_([&] { begin_devices(); });
    begun.set_value();
    while (!wait()) {
        guarded_([&] { decode(); });
    }
    guarded_([&] { stop(); });
    samplers_.clear();
}

// True: the recording is to end.
bool CounterRecording::wait() {
    std::unique_lock lock(mutex_);
    return stop_asked_.wait_for(lock, CounterSampler::kDecodeEvery, [this] { return stopping_; });
}

void CounterRecording::begin_devices() {
    std::uint32_t devices = 0;
    noting_refusal("counters are not sampled: ", [&] { devices = begin_driver(); });
    for (std::uint32_t device = 0; device < devices; ++device) {
        noting_refusal("", [&] { samplers_.push_back(std::make_unique<CounterSampler>(device)); });
    }
}

void CounterRecording::decode() {
    std::erase_if(samplers_, [&](const std::unique_ptr<CounterSampler>& sampler) {
        return !noting_refusal("", [&] { sampler->decode(sink_); });
    });
}

void CounterRecording::stop() {
    for (const std::unique_ptr<CounterSampler>& sampler : samplers_) {
        noting_refusal("", [&] { sampler->stop(sink_); });
        if (sampler->lost() > 0) {
            sink_.add(Note{sink_.intern(
                fmt::format("counters: {} samples were not read whole and are left out", sampler->lost()))});
        }
    }
}

// False: it was refused.
bool CounterRecording::noting_refusal(const std::string& what, const auto& work) {
    try {
        work();
        return true;
    } catch (const UnsupportedError& error) {
        if (const std::string text = what + error.what(); told_.insert(text).second) {  // all devices may say the same
            sink_.add(Note{sink_.intern(text)});
        }
        return false;
    }
}

}  // namespace oomb::profiler
