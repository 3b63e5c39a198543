#pragma once
// The CUDA backend: the schedule's engines are streams of one GPU. cuBLASLt multiplies matrices, cuDNN or our kernels
// for sm_90a attend, kernels/cuda does the rest, all on buffers of two arenas that are reserved once. T is the compute
// type, BFloat16 or float; accumulators are float.

#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "kernels/attention.hpp"
#include "kernels/cross_entropy.hpp"
#include "runtime/device/device_info.hpp"
#include "runtime/device/gpu_meter.hpp"
#include "runtime/device/hbm_arena.hpp"
#include "runtime/device/host_arena.hpp"
#include "runtime/paging/page_view.hpp"
#include "runtime/schedule/region_sizes.hpp"
#include "trainer/cuda/cudnn_attention.hpp"
#include "trainer/cuda/engine_streams.hpp"
#include "trainer/cuda/make_cuda_backend.hpp"
#include "trainer/cuda/matrix_product.hpp"
#include "trainer/cuda/operation_mark.hpp"
#include "trainer/executor/backend.hpp"
#include "trainer/executor/gradient_places.hpp"
#include "trainer/executor/optimizer_states.hpp"
#include "trainer/executor/planned_memory.hpp"

namespace oomb::trainer {

struct CudaBackendOptions {
    EngineStreamsOptions streams;
    // Our plain kernels instead of cuDNN and those for sm_90a; always so in fp32. Not with a plan of own kernels.
    bool plain_attention = false;
    StartProgress progress;
};

// The scalars region.
struct Scalars {
    kernels::CrossEntropySum loss;
    double gradient_squares = 0.0;
    std::int64_t non_finite_index = -1;
};

template <class T>
class CudaBackend : public Backend {
    using A = kernels::Accumulator<T>;

  public:
    // `plan` outlives the backend. Opens the GPU, reserves both arenas, and rehearses: one operation of every shape
    // that a step of the plan's context has is carried out on zeros, so that such a step makes no plan of a library's
    // and loads no kernel. Throws DeviceUnavailableError, DoesNotFitError, CudaError; Error where a library refuses a
    // shape. Weights start undefined, the rest zero.
    explicit CudaBackend(const schedule::Plan& plan, CudaBackendOptions options = {});
    ~CudaBackend() override;

    void take(issue::IssuedOperation operation) override;
    void wait_idle() override;
    std::vector<std::int32_t> page_lists(std::int64_t layer, std::int64_t first, std::int64_t count,
                                         issue::Ticket stored) override;
    void set_step(const StepSettings& settings) override { settings_ = settings; }
    void begin_step(std::int64_t step) override { step_mark_.emplace(step); }
    void end_step() override { step_mark_.reset(); }
    void set_sequence(std::span<const std::int32_t> tokens, std::span<const std::int32_t> targets) override;
    const ParameterLayout& layout() const override { return layout_; }
    void set_weight(std::size_t parameter, std::span<const std::byte> values, DType type) override;
    bool randomize_weights(std::uint64_t seed) override;
    TensorValues weight(std::size_t parameter) override;
    TensorValues gradient(std::size_t parameter) override;
    TensorValues moment(Moment which, std::size_t parameter) override;
    void set_moment(Moment which, std::size_t parameter, std::span<const std::byte> values) override;
    // Where they lie in GPU memory, in the order of layout(). Only while idle, and without bf16 gradients.
    A* gradients() { return memory_->template idle<A>(schedule::RegionName::kGradients); }
    StepSums sums() const override;
    std::vector<double> token_losses(std::int64_t tokens) const override;
    std::vector<RecallSums> recall() const override;
    NonFinite find_non_finite() const override;
    double phase_seconds(schedule::Phase phase) const override { return streams_->phase_seconds(phase); }
    std::int64_t touched_bytes(Tier tier) const override { return memory_->touched_bytes(tier); }
    std::int64_t library_peak_bytes() const override { return 0; }  // libraries work inside the arena
    std::int64_t library_plans() const override;
    double preparation_seconds() const override { return preparation_seconds_; }

    std::string device_name() const override { return device_.name; }
    CopyTotals copied(schedule::Engine engine) const override { return streams_->copied(engine); }
    double exposed_copy_seconds() const override { return streams_->exposed_copy_seconds(); }
    std::optional<std::int64_t> driver_peak_bytes() const override { return meter_.peak_process_bytes(); }
    DeviceReading device_reading() const override { return meter_.read(); }

  private:
    friend struct Dispatch;
    using Issued = issue::IssuedOperation;

    // cuda_backend.cpp
    void check_workspaces() const;
    void map_arenas();
    void clear();
    void rehearse();

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

    // attention.cpp
    void rope(const Issued& issued);
    void rope_backward(const Issued& issued);
    template <class Args>
    Args qkv_operands(const Issued& issued);
    void attention(const Issued& issued);
    void attention_backward(const Issued& issued);
    void merge(const Issued& issued);
    void finish_attention(const Issued& issued);
    void attention_delta(const Issued& issued);
    // The pages of a request, their frame numbers brought to the device. Gradient pages that this operation gives birth
    // to are marked in the workspace's first_touch.
    template <class E>
    paging::PageView<E> page_view(const Issued& issued, std::size_t request, std::int64_t tokens, std::int64_t first,
                                  schedule::Access access);
    // The same in two: frames to the workspace's list of their class; pages in the frames of that list.
    void send_frames(const Issued& issued, PageClass page_class, std::span<const std::int32_t> frames,
                     std::span<const std::uint8_t> first_touch, schedule::Access access);
    template <class E>
    paging::PageView<E> view_of(PageClass page_class, std::int64_t tokens, std::int64_t first) const;
    std::int32_t* frame_list(PageClass page_class) const;
    struct Window;  // K/V of a window as contiguous rows
    Window contiguous_window(const Issued& issued, std::byte* scratch);
    void attend_by_library(const Issued& issued, const AttentionWindow& window);
    void attend_by_kernel(const Issued& issued);
    void backward_by_library(const Issued& issued, const AttentionWindow& window);
    void backward_by_kernel(const Issued& issued);
    bool library_supports(const AttentionWindow& window, bool backward);

    // own_attention.cpp
    void attend_in_place(const Issued& issued);
    void backward_in_place(const Issued& issued);
    std::int64_t window_tokens(const Issued& issued) const;
    kernels::AttentionForward<T> forward_operands(const Issued& issued);
    kernels::AttentionBackward<T> backward_operands(const Issued& issued);
    const std::int32_t* send_lists(const Issued& issued);

    // listed_attention.cpp
    void attend_to_lists(const Issued& issued, kernels::AttentionForward<T> args);
    void backward_of_lists(const Issued& issued, const kernels::AttentionBackward<T>& args);

    // page_selection.cpp
    void page_means(const Issued& issued);
    void page_scores(const Issued& issued);
    void select_pages(const Issued& issued);
    void store_lists(const Issued& issued);
    void page_mass(const Issued& issued);
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
            return memory_->write<E>(issued, place.region, place.region_elements);
        };
        visit_gradient<T>(gradient_places_.of(layout_.index(kind, layer)), start, visit);
    }
    A* vector_gradient(const Issued& issued, ParameterKind kind, std::int64_t layer = -1);
    std::int64_t row_in_chunk(const Issued& issued) const;
    std::byte* workspace(std::int64_t part) const;
    template <class E>
    void put_state(StateArray array, std::int64_t first, std::span<const E> values);
    template <class E>
    void get_state(StateArray array, std::int64_t first, std::span<E> values) const;
    template <class E>
    void put_masters_of_device(std::int64_t first, const E* values, std::int64_t count);
    void draw_weights(std::size_t parameter, std::uint64_t key);
    cudaStream_t stream() const { return streams_->compute(); }
    template <class E>
    TensorValues read_back(const E* values, std::size_t parameter);

    const schedule::Plan& plan_;
    const ModelShape& model_;
    const schedule::Workspace workspace_;
    const schedule::AttentionScratch scratch_;
    ParameterLayout layout_;
    GradientPlaces gradient_places_;
    const schedule::OptimizerShards shards_;
    RopeFrequencies frequencies_;
    CudaBackendOptions options_;
    device::GpuMeter meter_;  // before the context: its memory is then this process's
    device::DeviceInfo device_;
    std::unique_ptr<device::HbmArena> hbm_;
    std::unique_ptr<device::HostArena> host_;
    std::unique_ptr<PlannedMemory> memory_;
    std::unique_ptr<EngineStreams> streams_;
    std::unique_ptr<MatrixProducts> products_;
    std::unique_ptr<CudnnAttention> library_attention_;  // null: plain kernels only
    std::vector<device::Copy> copies_;                   // of one operation, reused
    std::vector<std::byte> values_;                      // what weight() and gradient() return, and
    std::vector<A> masters_;                             // weight() where there are master weights
    StepSettings settings_;
    std::optional<StepMark> step_mark_;
    double gradient_scale_ = 1.0;  // of the step's clipping
    double preparation_seconds_ = 0.0;
};

extern template class CudaBackend<BFloat16>;
extern template class CudaBackend<float>;

}  // namespace oomb::trainer
