#pragma once
// An evaluation from a model folder and tokens to mean losses, for any backend: docs/evaluation.md.

#include <atomic>
#include <cstdio>
#include <filesystem>
#include <string>
#include <vector>

#include "runtime/core/page_recall.hpp"
#include "trainer/run/training.hpp"

namespace oomb::trainer {

struct EvaluationOptions {
    std::string command;  // as typed
    std::filesystem::path model;
    std::filesystem::path data;
    std::filesystem::path json;             // empty: none
    std::filesystem::path losses;           // a .npy; empty: none
    bool by_document = false;               // else sequences of the plan's context
    std::int64_t sequences = 0;             // or documents; 0: all
    std::vector<std::int64_t> bucket_ends;  // ascending, the last at least the context; see position_buckets()
    std::int64_t threads = 1;
};

// Losses in nats, summed over valid targets in float64.
struct LossSum {
    double loss = 0.0;
    std::int64_t valid_targets = 0;

    double mean() const { return loss / static_cast<double>(valid_targets); }  // NaN without targets
    LossSum& operator+=(const LossSum& other);
};

// Positions [first, end) of a sequence. The target of position i is token i + 1.
struct PositionBucket {
    std::int64_t first = 0, end = 0;
};

// Buckets of these ends up to `context`. Without ends: 128, 256, 512, ...
std::vector<PositionBucket> position_buckets(const std::vector<std::int64_t>& ends, std::int64_t context);

struct DocumentLoss {
    std::int64_t offset_tokens = 0;  // of the first token, in the data
    std::int64_t tokens = 0;
    LossSum all;
    std::vector<LossSum> by_bucket;
};

struct Evaluation {
    std::vector<PositionBucket> buckets;
    LossSum all;  // of the documents below
    std::vector<LossSum> by_bucket;
    std::vector<DocumentLoss> documents;  // or sequences, in order; those that ran to their end
    std::vector<float> token_losses;      // of the documents, one after the other; empty without options.losses
    std::vector<RecallSums> recall;       // [layers, budgets]; empty: not measured
    bool interrupted = false;
};

// Of one sequence: `losses` and `targets` by position.
DocumentLoss document_loss(const EvaluationResult& result, std::span<const std::int32_t> targets,
                           const std::vector<PositionBucket>& buckets);

// Everything is read and checked before the first operation, as in run_training(). `stop` ends the run within a
// sequence; those before it count. `plan.run.forward_only` is set. Progress and notes go to `log`.
Evaluation run_evaluation(const EvaluationOptions& options, const schedule::Plan& plan,
                          const BackendFactory& make_backend, const std::atomic<bool>& stop, std::FILE* log);

// What run_evaluation() checks before it makes a backend, and the token ids of the first sequence.
void check_evaluation(const EvaluationOptions& options, const schedule::Plan& plan, std::FILE* log);

}  // namespace oomb::trainer
