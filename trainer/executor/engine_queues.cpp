#include "trainer/executor/engine_queues.hpp"

#include <array>
#include <condition_variable>
#include <deque>
#include <exception>
#include <mutex>
#include <random>
#include <thread>
#include <utility>

#include "runtime/core/error.hpp"

namespace oomb::trainer {
namespace {

using issue::IssuedOperation;
using issue::Tickets;
using schedule::kEngines;

bool may_run(const IssuedOperation& operation, const Tickets& done) {
    for (int engine = 0; engine < kEngines; ++engine) {
        if (operation.waits[engine] > done[engine]) {
            return false;
        }
    }
    return true;
}

class InOrderQueues : public EngineQueues {
  public:
    explicit InOrderQueues(CarryOut carry_out) : carry_out_(std::move(carry_out)) {}
    void take(IssuedOperation operation) override { carry_out_(operation); }
    void wait_idle() override {}
    void wait_for(schedule::Engine /*engine*/, issue::Ticket /*ticket*/) override {}

  private:
    CarryOut carry_out_;
};

class ShuffledQueues : public EngineQueues {
  public:
    ShuffledQueues(CarryOut carry_out, std::uint64_t seed, std::size_t depth)
        : carry_out_(std::move(carry_out)), random_(seed), depth_(depth) {}

    void take(IssuedOperation operation) override {
        queues_[static_cast<int>(operation.operation.engine)].push_back(std::move(operation));
        ++held_;
        while (held_ > depth_) {
            run_one();
        }
    }
    void wait_idle() override {
        while (held_ > 0) {
            run_one();
        }
    }
    void wait_for(schedule::Engine engine, issue::Ticket ticket) override {
        while (done_[static_cast<int>(engine)] < ticket) {
            run_one();
        }
    }

  private:
    void run_one() {
        std::array<int, kEngines> runnable{};
        std::size_t count = 0;
        for (int engine = 0; engine < kEngines; ++engine) {
            if (!queues_[engine].empty() && may_run(queues_[engine].front(), done_)) {
                runnable[count++] = engine;
            }
        }
        require(count > 0, "engine queues: {} operations wait for one another", held_);
        auto& queue = queues_[runnable[random_() % count]];
        const IssuedOperation operation = std::move(queue.front());
        queue.pop_front();
        --held_;
        carry_out_(operation);
        done_[static_cast<int>(operation.operation.engine)] = operation.ticket;
    }

    CarryOut carry_out_;
    std::mt19937_64 random_;
    std::size_t depth_;
    std::size_t held_ = 0;
    Tickets done_{};
    std::array<std::deque<IssuedOperation>, kEngines> queues_;
};

class ThreadedQueues : public EngineQueues {
  public:
    explicit ThreadedQueues(CarryOut carry_out) : carry_out_(std::move(carry_out)) {
        for (int engine = 0; engine < kEngines; ++engine) {
            threads_[engine] = std::jthread([this, engine](const std::stop_token& stop) { serve(engine, stop); });
        }
    }
    ~ThreadedQueues() override {
        {
            // Under the lock: a thread between its look at the stop and its sleep would miss the call.
            const std::lock_guard lock(mutex_);
            for (auto& thread : threads_) {
                thread.request_stop();
            }
        }
        changed_.notify_all();
    }

    void take(IssuedOperation operation) override {
        std::unique_lock lock(mutex_);
        // The issuer must not run ahead without bound: an operation carries its lists of frames.
        changed_.wait(lock, [&] { return held_ < kMostHeld; });
        queues_[static_cast<int>(operation.operation.engine)].push_back(std::move(operation));
        ++held_;
        changed_.notify_all();
    }
    void wait_idle() override {
        std::unique_lock lock(mutex_);
        changed_.wait(lock, [&] { return held_ == 0; });
        if (error_) {
            std::rethrow_exception(std::exchange(error_, nullptr));
        }
    }
    void wait_for(schedule::Engine engine, issue::Ticket ticket) override {
        std::unique_lock lock(mutex_);
        changed_.wait(lock, [&] { return done_[static_cast<int>(engine)] >= ticket; });
        if (error_) {
            std::rethrow_exception(error_);  // it stays: what is still queued is to be dropped
        }
    }

  private:
    static constexpr std::size_t kMostHeld = 4096;

    void serve(int engine, const std::stop_token& stop) {
        auto& queue = queues_[engine];
        std::unique_lock lock(mutex_);
        while (true) {
            changed_.wait(lock, [&] {
                return stop.stop_requested() || (!queue.empty() && (error_ || may_run(queue.front(), done_)));
            });
            if (stop.stop_requested()) {
                return;
            }
            const IssuedOperation operation = std::move(queue.front());
            queue.pop_front();
            const bool dropped = error_ != nullptr;
            lock.unlock();
            std::exception_ptr error = dropped ? nullptr : run(operation);
            lock.lock();
            if (error && !error_) {
                error_ = error;
            }
            done_[engine] = operation.ticket;
            --held_;
            changed_.notify_all();
        }
    }

    std::exception_ptr run(const IssuedOperation& operation) {
        try {
            carry_out_(operation);
        } catch (...) {
            return std::current_exception();
        }
        return nullptr;
    }

    CarryOut carry_out_;
    std::mutex mutex_;
    std::condition_variable changed_;
    std::array<std::deque<IssuedOperation>, kEngines> queues_;
    Tickets done_{};
    std::size_t held_ = 0;
    std::exception_ptr error_;
    std::array<std::jthread, kEngines> threads_;  // last: they start when everything else is there
};

}  // namespace

std::unique_ptr<EngineQueues> make_in_order_queues(CarryOut carry_out) {
    return std::make_unique<InOrderQueues>(std::move(carry_out));
}

std::unique_ptr<EngineQueues> make_shuffled_queues(CarryOut carry_out, std::uint64_t seed, std::size_t depth) {
    return std::make_unique<ShuffledQueues>(std::move(carry_out), seed, depth);
}

std::unique_ptr<EngineQueues> make_threaded_queues(CarryOut carry_out) {
    return std::make_unique<ThreadedQueues>(std::move(carry_out));
}

}  // namespace oomb::trainer
