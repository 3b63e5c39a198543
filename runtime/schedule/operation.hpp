#pragma once
// An operation of a training step: what runs, where, on which buffers and pages, and what it costs.

#include <cstdint>
#include <string>
#include <string_view>
#include <variant>

#include "runtime/core/dtype.hpp"
#include "runtime/core/inline_vector.hpp"
#include "runtime/core/page_set.hpp"
#include "runtime/schedule/region.hpp"

namespace oomb::schedule {

// Each engine carries out its operations first in, first out. Engines run beside one another.
enum class Engine : std::uint8_t { kCompute, kHostToDevice, kDeviceToHost, kHost, kFile };
inline constexpr int kEngines = 5;

// The gradient stage runs each chunk forward again (unless what it needs was kept), then backward. An evaluation has
// kForward alone.
enum class Phase : std::uint8_t { kFill, kForward, kBackward, kOptimizer };
inline constexpr int kPhases = 4;

// Kinds in the order of a step, then those that came later: a new one is the last, for traces name kinds by number.
// "Linear" kinds are GEMMs; their backwards are two:
// by input and by weight.
#define OOMB_OPERATION_KINDS(X)                                      \
    X(kZeroGradients, "zero_gradients")                              \
    X(kLoadTokens, "load_tokens")                                    \
    X(kEmbedding, "embedding")                                       \
    X(kInputNorm, "input_norm")                                      \
    X(kLinearQkv, "linear_qkv")                                      \
    X(kRope, "rope")                                                 \
    X(kPageMeans, "page_means")                                      \
    X(kPageScores, "page_scores")                                    \
    X(kSelectPages, "select_pages")                                  \
    X(kStoreLists, "store_lists")                                    \
    X(kFetch, "fetch")                                               \
    X(kAttention, "attention")                                       \
    X(kMerge, "merge")                                               \
    X(kFinishAttention, "finish_attention")                          \
    X(kWriteBack, "write_back")                                      \
    X(kKeepActivation, "keep_activation")                            \
    X(kLoadActivation, "load_activation")                            \
    X(kLinearOutput, "linear_output")                                \
    X(kPostNorm, "post_norm")                                        \
    X(kLinearGateUp, "linear_gate_up")                               \
    X(kSwiglu, "swiglu")                                             \
    X(kLinearDown, "linear_down")                                    \
    X(kFinalNorm, "final_norm")                                      \
    X(kLinearHead, "linear_head")                                    \
    X(kCrossEntropy, "cross_entropy")                                \
    X(kLinearHeadWeightGradient, "linear_head_weight_gradient")      \
    X(kLinearHeadInputGradient, "linear_head_input_gradient")        \
    X(kFinalNormBackward, "final_norm_backward")                     \
    X(kLinearDownWeightGradient, "linear_down_weight_gradient")      \
    X(kLinearDownInputGradient, "linear_down_input_gradient")        \
    X(kSwigluBackward, "swiglu_backward")                            \
    X(kLinearGateUpWeightGradient, "linear_gate_up_weight_gradient") \
    X(kLinearGateUpInputGradient, "linear_gate_up_input_gradient")   \
    X(kPostNormBackward, "post_norm_backward")                       \
    X(kLinearOutputWeightGradient, "linear_output_weight_gradient")  \
    X(kLinearOutputInputGradient, "linear_output_input_gradient")    \
    X(kAttentionDelta, "attention_delta")                            \
    X(kAttentionBackward, "attention_backward")                      \
    X(kRopeBackward, "rope_backward")                                \
    X(kLinearQkvWeightGradient, "linear_qkv_weight_gradient")        \
    X(kLinearQkvInputGradient, "linear_qkv_input_gradient")          \
    X(kInputNormBackward, "input_norm_backward")                     \
    X(kRelease, "release")                                           \
    X(kEmbeddingBackward, "embedding_backward")                      \
    X(kGradientNorm, "gradient_norm")                                \
    X(kFetchState, "fetch_state")                                    \
    X(kOptimizer, "optimizer")                                       \
    X(kStoreState, "store_state")                                    \
    X(kStoreLosses, "store_losses")                                  \
    X(kPageMass, "page_mass")                                        \
    X(kPageRecall, "page_recall")                                    \
    X(kPrefetch, "prefetch")

enum class Kind : std::uint8_t {
#define OOMB_KIND(name, text) name,
    OOMB_OPERATION_KINDS(OOMB_KIND)
#undef OOMB_KIND
};
inline constexpr int kKinds = static_cast<int>(Kind::kPrefetch) + 1;

std::string_view name_of(Engine engine);
std::string_view name_of(Phase phase);
std::string_view name_of(Kind kind);

// Brings pages to HBM, or writes them to the host, and touches nothing else.
constexpr bool is_page_copy(Kind kind) {
    return kind == Kind::kFetch || kind == Kind::kPrefetch || kind == Kind::kWriteBack;
}

// `part` of kLinearQkv and kRope says which of the three they compute.
inline constexpr std::uint32_t kQueryPart = 1, kKeyPart = 2, kValuePart = 4;

// Coordinates of an operation, packed into 64 bits: the same operation has the same id in every run, plan and trace.
// `part` counts windows, page groups, row tiles or shards of one (chunk, layer, kind).
struct OperationId {
    std::uint16_t sequence = 0;        // 12 bits: sequence within the optimizer step (gradient accumulation)
    Phase phase = Phase::kFill;        // 2 bits
    std::uint16_t chunk = 0;           // 16 bits
    std::uint16_t layer = 0;           // 9 bits
    Kind kind = Kind::kZeroGradients;  // 6 bits
    std::uint32_t part = 0;            // 19 bits

    bool operator==(const OperationId&) const = default;
};
std::uint64_t pack(const OperationId& id);  // InternalError when a coordinate has no room
OperationId unpack(std::uint64_t packed);
std::string to_text(const OperationId& id);  // "sequence 0, backward, chunk 3, layer 1, attention_backward 2"

// A matrix product [m, k] x [k, n].
struct GemmCost {
    std::int64_t m = 0, n = 0, k = 0;
    DType dtype = DType::kF32;
    bool accumulates = false;  // adds to its output (beta = 1)
};

// Attention of `queries` consecutive tokens over keys [first_key, first_key + keys), or `listed`, over the pages of
// each query page's list, `keys` in all, every one before the queries. A query at position p sees key position j where
// j <= p, j >= document_start, and j > p - sliding_window (0 = no limit).
struct AttentionCost {
    std::int64_t first_query = 0, queries = 0;
    std::int64_t first_key = 0, keys = 0;
    std::int64_t query_heads = 0, kv_heads = 0, head_dim = 0;
    std::int64_t sliding_window = 0;
    std::int64_t document_start = 0;
    bool listed = false;
    bool backward = false;
    bool own_kernels = false;  // StepShape::own_kernels()
    bool deterministic = true;
    DType dtype = DType::kF32;
};

// Bytes through one engine. For page copies `bytes` is an upper bound: pages already in place do not travel.
struct CopyCost {
    std::int64_t bytes = 0;
    std::int64_t pages = 0;
};

// A pass over memory: bytes read and written.
struct ElementwiseCost {
    std::int64_t bytes = 0;
};

using Cost = std::variant<std::monostate, GemmCost, AttentionCost, CopyCost, ElementwiseCost>;

enum class Access : std::uint8_t { kRead, kWrite };  // adding to a buffer is a write

// Use of a static region. Between `begins` and `ends` the region is live; before and after its bytes mean nothing.
struct RegionUse {
    RegionName region = RegionName::kWeights;
    std::int32_t slot = 0;
    Access access = Access::kRead;
    bool begins = false;
    bool ends = false;
};

// Use of pages. `bound` is the number of HBM frames the request may need at once. `listed`: the pages are those that
// the lists of the operation's query pages name, which are known when it is issued; until then `pages` counts the
// bound.
struct PageRequest {
    PageUse use = PageUse::kRead;
    PageSet pages;
    std::int64_t bound = 0;
    bool listed = false;
};

struct Operation {
    OperationId id;
    Engine engine = Engine::kCompute;
    Cost cost;
    InlineVector<RegionUse, 8> regions;
    InlineVector<PageRequest, 2> requests;
    std::int64_t rows = 0;       // tokens of the chunk (or of the row tile) the operation works on
    std::int64_t first_row = 0;  // absolute position of the first of them in the sequence
};

// A loop of the schedule over the layers of a chunk or over the windows of its history, before an iteration.
struct Repetition {
    enum class Over : std::uint8_t { kLayers, kWindows };
    Over over = Over::kLayers;
    std::int64_t chunk = 0;
    std::int64_t layer = 0;  // of the next iteration
    std::int64_t done = 0;   // iterations so far, left out ones counted; over windows the next window
    int step = 1;            // from layer to layer
    // Iterations, the next one first, that do what the one before did, on the pages of another layer or window, only
    // that these may have other homes. The last one of a loop is never among them.
    std::int64_t alike = 0;
};

// Receives a schedule one operation at a time, in program order.
class OperationSink {
  public:
    virtual ~OperationSink() = default;
    virtual void take(const Operation& operation) = 0;
    // Asked before every iteration: how many of the alike ones need not be listed, because the sink knows what they
    // would do. Whoever carries operations out wants all.
    virtual std::int64_t left_out(const Repetition& /*repetition*/) { return 0; }
};

}  // namespace oomb::schedule
