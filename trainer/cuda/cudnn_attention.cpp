#include "trainer/cuda/cudnn_attention.hpp"

#include <cudnn_frontend.h>

#include <cmath>
#include <unordered_map>
#include <vector>

#include "runtime/core/error.hpp"

namespace oomb::trainer {
namespace {

namespace fe = cudnn_frontend;

enum Uid : std::int64_t { kQ = 1, kK, kV, kO, kLogSumExp, kDo, kDq, kDk, kDv };

void check(cudnnStatus_t status, const char* call) {
    if (status == CUDNN_STATUS_ALLOC_FAILED) {
        fail<DoesNotFitError>("{}: no GPU memory is left for cuDNN: end other processes on the GPU, or lower {}", call,
                              "--gpu-memory or --context");
    }
    if (status != CUDNN_STATUS_SUCCESS) {
        fail<Error>("{}: {}", call, cudnnGetErrorString(status));
    }
}

struct Graph {
    std::shared_ptr<fe::graph::Graph> graph;  // null: not supported
    std::int64_t workspace_bytes = -1;
};

std::vector<std::int64_t> dims(std::int64_t rows, std::int64_t heads, std::int64_t head_dim) {
    return {1, heads, rows, head_dim};
}
// Of a [rows, heads, head_dim] tensor in the order batch, head, row, element.
std::vector<std::int64_t> token_major(std::int64_t rows, std::int64_t heads, std::int64_t head_dim) {
    return {rows * heads * head_dim, head_dim, heads * head_dim, 1};
}

class GraphMaker {
  public:
    explicit GraphMaker(const AttentionWindow& window) : window_(window) {
        graph_->set_io_data_type(fe::DataType_t::BFLOAT16)
            .set_intermediate_data_type(fe::DataType_t::FLOAT)
            .set_compute_data_type(fe::DataType_t::FLOAT);
    }

    Graph forward(cudnnHandle_t handle) {
        const auto& w = window_;
        auto attributes = fe::graph::SDPA_attributes();
        attributes.set_generate_stats(true).set_attn_scale(scale()).set_causal_mask(w.causal);
        auto [o, lse] = graph_->sdpa(queries(kQ), keys(kK), keys(kV), attributes);
        output(o, kO, w.rows, w.query_heads);
        lse->set_output(true)
            .set_uid(kLogSumExp)
            .set_data_type(fe::DataType_t::FLOAT)
            .set_dim(dims(w.rows, w.query_heads, 1))
            .set_stride(token_major(w.rows, w.query_heads, 1));
        return build(handle);
    }

    Graph backward(cudnnHandle_t handle, bool deterministic) {
        const auto& w = window_;
        auto attributes = fe::graph::SDPA_backward_attributes();
        attributes.set_attn_scale(scale()).set_causal_mask(w.causal).set_deterministic_algorithm(deterministic);
        const auto lse = graph_->tensor(fe::graph::Tensor_attributes()
                                            .set_uid(kLogSumExp)
                                            .set_data_type(fe::DataType_t::FLOAT)
                                            .set_dim(dims(w.rows, w.query_heads, 1))
                                            .set_stride({w.rows * w.query_heads, w.rows, 1, 1}));
        auto [dq, dk, dv] =
            graph_->sdpa_backward(queries(kQ), keys(kK), keys(kV), queries(kO), queries(kDo), lse, attributes);
        output(dq, kDq, w.rows, w.query_heads);
        output(dk, kDk, w.keys, w.kv_heads);
        output(dv, kDv, w.keys, w.kv_heads);
        return build(handle);
    }

  private:
    using Tensor = std::shared_ptr<fe::graph::Tensor_attributes>;

    float scale() const { return static_cast<float>(1.0 / std::sqrt(static_cast<double>(window_.head_dim))); }
    Tensor tensor(Uid uid, std::int64_t rows, std::int64_t heads) {
        return graph_->tensor(fe::graph::Tensor_attributes()
                                  .set_uid(uid)
                                  .set_dim(dims(rows, heads, window_.head_dim))
                                  .set_stride(token_major(rows, heads, window_.head_dim)));
    }
    Tensor queries(Uid uid) { return tensor(uid, window_.rows, window_.query_heads); }
    Tensor keys(Uid uid) { return tensor(uid, window_.keys, window_.kv_heads); }
    void output(const Tensor& tensor, Uid uid, std::int64_t rows, std::int64_t heads) const {
        tensor->set_output(true)
            .set_uid(uid)
            .set_dim(dims(rows, heads, window_.head_dim))
            .set_stride(token_major(rows, heads, window_.head_dim));
    }
    // What cuDNN 9.19 is known not to take is nobody's error; anything else is: a slow kernel in its place would go
    // unnoticed.
    bool known_as_unsupported() const {
        return (window_.rows == 1 && window_.keys == 1) || window_.head_dim % 8 != 0 || window_.head_dim > 256;
    }
    Graph build(cudnnHandle_t handle) {
        if (known_as_unsupported()) {
            return {};
        }
        auto status = graph_->build(handle, {fe::HeurMode_t::A});
        if (!status.is_good()) {
            fail<Error>("cuDNN attention, {} queries on {} keys, {} and {} heads of {}: {}", window_.rows, window_.keys,
                        window_.query_heads, window_.kv_heads, window_.head_dim, status.get_message());
        }
        Graph result{graph_, 0};
        status = graph_->get_workspace_size(result.workspace_bytes);
        require(status.is_good(), "cuDNN attention: {}", status.get_message());
        return result;
    }

    AttentionWindow window_;
    std::shared_ptr<fe::graph::Graph> graph_ = std::make_shared<fe::graph::Graph>();
};

}  // namespace

struct CudnnAttention::Impl {
    cudnnHandle_t handle = nullptr;
    bool deterministic = false;
    std::map<AttentionWindow, Graph> forward, backward;

    ~Impl() {
        forward.clear();
        backward.clear();
        if (handle != nullptr) {
            cudnnDestroy(handle);
        }
    }
    const Graph& forward_graph(const AttentionWindow& window) {
        auto found = forward.find(window);
        if (found == forward.end()) {
            found = forward.emplace(window, GraphMaker(window).forward(handle)).first;
        }
        return found->second;
    }
    const Graph& backward_graph(const AttentionWindow& window) {
        auto found = backward.find(window);
        if (found == backward.end()) {
            found = backward.emplace(window, GraphMaker(window).backward(handle, deterministic)).first;
        }
        return found->second;
    }
    void execute(const Graph& graph, std::unordered_map<std::int64_t, void*>& operands, void* workspace) const {
        require(graph.graph != nullptr, "cuDNN attention: a window it does not support was asked");
        auto status = graph.graph->execute(handle, operands, workspace);
        if (!status.is_good()) {
            fail<Error>("cuDNN attention: {}", status.get_message());
        }
    }
};

CudnnAttention::CudnnAttention(cudaStream_t stream, bool deterministic) : impl_(std::make_unique<Impl>()) {
    impl_->deterministic = deterministic;
    check(cudnnCreate(&impl_->handle), "cudnnCreate");
    check(cudnnSetStream(impl_->handle, stream), "cudnnSetStream");
}

CudnnAttention::~CudnnAttention() = default;

std::int64_t CudnnAttention::prepare_forward(const AttentionWindow& window) {
    return impl_->forward_graph(window).workspace_bytes;
}
std::int64_t CudnnAttention::prepare_backward(const AttentionWindow& window) {
    return impl_->backward_graph(window).workspace_bytes;
}

std::int64_t CudnnAttention::graphs() const {
    return static_cast<std::int64_t>(impl_->forward.size() + impl_->backward.size());
}

namespace {

void* operand(const void* pointer) {
    return const_cast<void*>(pointer);
}

}  // namespace

void CudnnAttention::forward(const AttentionWindow& window, const CudnnForward& args, void* workspace) {
    std::unordered_map<std::int64_t, void*> operands = {{kQ, operand(args.q)},
                                                        {kK, operand(args.k)},
                                                        {kV, operand(args.v)},
                                                        {kO, args.o},
                                                        {kLogSumExp, args.log_sum_exp}};
    impl_->execute(impl_->forward_graph(window), operands, workspace);
}

void CudnnAttention::backward(const AttentionWindow& window, const CudnnBackward& args, void* workspace) {
    std::unordered_map<std::int64_t, void*> operands = {
        {kQ, operand(args.q)}, {kK, operand(args.k)},    {kV, operand(args.v)},
        {kO, operand(args.o)}, {kDo, operand(args.d_o)}, {kLogSumExp, operand(args.log_sum_exp)},
        {kDq, args.dq},        {kDk, args.dk},           {kDv, args.dv}};
    impl_->execute(impl_->backward_graph(window), operands, workspace);
}

}  // namespace oomb::trainer
