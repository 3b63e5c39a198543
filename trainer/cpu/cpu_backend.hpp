#pragma once
// The CPU backend: LibTorch multiplies matrices and attends over windows, our kernels do the rest, all on buffers of
// the two arenas. T is the compute type: float, double for the oracle mode, or BFloat16; accumulators are double for
// double, else float. In bf16 attention is our plain kernel.

#include <array>
#include <chrono>
#include <memory>
#include <mutex>

#include "kernels/page_selection.hpp"
#include "runtime/paging/page_view.hpp"
#include "trainer/cpu/cpu_memory.hpp"
#include "trainer/cpu/libtorch_memory.hpp"
#include "trainer/executor/backend.hpp"
#include "trainer/executor/engine_queues.hpp"
#include "trainer/executor/gradient_places.hpp"
#include "trainer/executor/optimizer_states.hpp"
#include "trainer/model/parameter_layout.hpp"

namespace oomb::trainer {

struct CpuBackendOptions {
    enum class Order : std::uint8_t { kInOrder, kShuffled, kThreads };
    Order order = Order::kInOrder;
    std::uint64_t seed = 0;          // kShuffled
    std::size_t shuffle_depth = 64;  // operations held back
    bool checked = false;            // poison and hazard checker, see CpuMemory
    // Tests only: called with each operation before it is queued, to take a wait away.
    std::function<void(issue::IssuedOperation&)> tamper = nullptr;
};

struct AttentionBlock;  // attention.cpp

template <class T>
class CpuBackend : public Backend {
    using A = kernels::Accumulator<T>;

  public:
    // `plan` outlives the backend. Weights, gradients and moments start undefined (zero unless checked).
    explicit CpuBackend(const schedule::Plan& plan, CpuBackendOptions options = {});

    void take(issue::IssuedOperation operation) override;
    void wait_idle() override { queues_->wait_idle(); }
    std::vector<std::int32_t> page_lists(std::int64_t layer, std::int64_t first, std::int64_t count,
                                         issue::Ticket stored) override;
    void set_step(const StepSettings& settings) override { settings_ = settings; }
    void set_sequence(std::span<const std::int32_t> tokens, std::span<const std::int32_t> targets) override;
    StepSums sums() const override;
    std::vector<double> token_losses(std::int64_t tokens) const override;
    std::vector<RecallSums> recall() const override;
    NonFinite find_non_finite() const override;
    double phase_seconds(schedule::Phase phase) const override { return phase_seconds_[static_cast<int>(phase)]; }
    CopyTotals copied(schedule::Engine engine) const override { return copied_[static_cast<int>(engine)]; }
    // One thread does everything, so compute waits for the whole of each copy (a thread per engine: at most).
    double exposed_copy_seconds() const override {
        return copied(schedule::Engine::kHostToDevice).seconds + copied(schedule::Engine::kDeviceToHost).seconds;
    }
    std::int64_t touched_bytes(Tier tier) const override { return memory_.touched_bytes(tier); }

    std::int64_t library_peak_bytes() const override { return libtorch_peak_bytes(); }
    const ParameterLayout& layout() const override { return layout_; }
    void set_weight(std::size_t parameter, std::span<const std::byte> values, DType type) override;
    TensorValues weight(std::size_t parameter) override;
    TensorValues gradient(std::size_t parameter) override;
    TensorValues moment(Moment which, std::size_t parameter) override;
    void set_moment(Moment which, std::size_t parameter, std::span<const std::byte> values) override;
    // [layout().elements()], while idle.
    T* weights() { return memory_.template idle<T>(schedule::RegionName::kWeights); }
    A* gradients() { return memory_.template idle<A>(schedule::RegionName::kGradients); }  // without bf16 gradients
    // m or v, gathered from its homes.
    std::vector<A> moments(StateArray array) const;

  private:
    friend struct Dispatch;
    using Issued = issue::IssuedOperation;
    using Clock = std::chrono::steady_clock;

    void carry_out(const Issued& issued);
    void note_time(const Issued& issued, Clock::time_point begin, Clock::time_point end);

    // linear.cpp
    void linear_qkv(const Issued& issued);
    void linear_output(const Issued& issued);
    void linear_gate_up(const Issued& issued);
    void linear_down(const Issued& issued);
    void linear_head(const Issued& issued);
    void linear_weight_gradient(const Issued& issued);
    void linear_input_gradient(const Issued& issued);

    // passes.cpp
    void zero_gradients(const Issued& issued);
    void embedding(const Issued& issued);
    void embedding_backward(const Issued& issued);
    void norm(const Issued& issued);
    void norm_backward(const Issued& issued);
    void swiglu(const Issued& issued);
    void swiglu_backward(const Issued& issued);
    void cross_entropy(const Issued& issued);
    void gradient_norm(const Issued& issued);
    void optimizer(const Issued& issued);

    // rope.cpp
    void rope(const Issued& issued);
    void rope_backward(const Issued& issued);
    template <class E>
    paging::PageView<E> page_view(const Issued& issued, std::size_t request, std::int64_t first, std::int64_t tokens);

    // attention.cpp
    void attention(const Issued& issued);
    void attention_backward(const Issued& issued);
    void attend_by_library(const Issued& issued);
    void backward_by_library(const Issued& issued);
    void attend_by_kernel(const Issued& issued);
    void backward_by_kernel(const Issued& issued);
    void gather_pages(const Issued& issued, const AttentionBlock& block, std::array<T*, 2> planes);
    void add_to_gradient_pages(const Issued& issued, const AttentionBlock& block, std::array<const T*, 2> planes,
                               std::vector<std::uint8_t>& untouched);
    void merge(const Issued& issued);
    void finish_attention(const Issued& issued);
    void attention_delta(const Issued& issued);

    // page_selection.cpp
    void page_means(const Issued& issued);
    void page_scores(const Issued& issued);
    void select_pages(const Issued& issued);
    void store_lists(const Issued& issued);

    // page_recall.cpp
    void page_mass(const Issued& issued);
    void mass_by_library(const kernels::PageMass<T>& args, T* scratch);
    void page_recall(const Issued& issued);

    // copies.cpp
    void load_tokens(const Issued& issued);
    void copy_pages(const Issued& issued);
    void copy_activation(const Issued& issued);
    void copy_state(const Issued& issued);
    void store_losses(const Issued& issued);

    const T* weight(const Issued& issued, ParameterKind kind, std::int64_t layer = -1);
    // visit(pointer to its first element), in the type in which it is stored.
    template <class Visit>
    void write_gradient(const Issued& issued, ParameterKind kind, std::int64_t layer, const Visit& visit) {
        const auto start = [&]<class E>(const GradientPlace& place) {
            return memory_.template write<E>(issued, place.region, place.region_elements);
        };
        visit_gradient<T>(gradient_places_.of(layout_.index(kind, layer)), start, visit);
    }
    A* vector_gradient(const Issued& issued, ParameterKind kind, std::int64_t layer = -1);
    template <class E>
    void put_state(StateArray array, std::int64_t first, std::span<const E> values);
    template <class E>
    void get_state(StateArray array, std::int64_t first, std::span<E> values) const;
    std::int64_t row_in_chunk(const Issued& issued) const;

    const schedule::Plan& plan_;
    const ModelShape& model_;
    ParameterLayout layout_;
    GradientPlaces gradient_places_;
    schedule::OptimizerShards shards_;
    RopeFrequencies frequencies_;
    CpuMemory memory_;
    CpuBackendOptions options_;
    StepSettings settings_;
    std::vector<A> values_;  // what weight() returns where there are master weights
    const Clock::time_point start_ = Clock::now();
    std::array<double, schedule::kPhases> phase_seconds_{};
    std::array<CopyTotals, schedule::kEngines> copied_{};  // each written by its engine's thread alone
    std::mutex timed_mutex_;
    std::unique_ptr<EngineQueues> queues_;  // last: its threads use the rest
};

// The pages of a request as rows from position `first` on.
template <class T>
template <class E>
paging::PageView<E> CpuBackend<T>::page_view(const Issued& issued, std::size_t request, std::int64_t first,
                                             std::int64_t tokens) {
    constexpr auto kAccess = std::is_const_v<E> ? schedule::Access::kRead : schedule::Access::kWrite;
    const paging::Grant& grant = issued.grants[request];
    for (const std::int32_t frame : grant.frames) {
        for (std::size_t plane = 0; plane < 2; ++plane) {
            memory_.frame(issued, Tier::kHbm, grant.page_class, plane, frame, kAccess);
        }
    }
    return {.k_slab = reinterpret_cast<E*>(memory_.slab(Tier::kHbm, grant.page_class, 0)),
            .v_slab = reinterpret_cast<E*>(memory_.slab(Tier::kHbm, grant.page_class, 1)),
            .frames = grant.frames.data(),
            .page_tokens = plan_.run.page_tokens,
            .kv_heads = model_.kv_heads,
            .head_dim = model_.head_dim,
            .first_token = first,
            .tokens = tokens};
}

extern template class CpuBackend<BFloat16>;
extern template class CpuBackend<float>;
extern template class CpuBackend<double>;

}  // namespace oomb::trainer
