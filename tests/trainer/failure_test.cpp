// Steps that must not reach the weights: NaN, infinity, an interruption, sequences that can't be computed.

#include <atomic>
#include <limits>

#include "tests/trainer/step_case.hpp"
#include "trainer/executor/executor.hpp"

namespace oomb::testing {
namespace {

using schedule::Kind;
using trainer::CpuBackend;
using trainer::Executor;
using trainer::SequenceView;
using trainer::StepSettings;

constexpr StepSettings kSettings{.learning_rate = 0.1, .weight_decay = 0.1};

// A backend with weights and one step done, so that moments hold something.
struct Trained {
    explicit Trained(Order order = Order::kInOrder)
        : step(step_run(DType::kF64, Offload::kHost, Keep::kNone)),
          backend(step.plan, {.order = order, .checked = true}) {
        std::copy(step.weights.begin(), step.weights.end(), backend.weights());
        executor.compute_gradients(views(), kSettings);
        executor.update_weights();
    }
    std::vector<SequenceView> views() const {
        std::vector<SequenceView> result;
        for (const auto& sequence : step.sequences) {
            result.push_back(sequence.view());
        }
        return result;
    }
    // Weights and moments.
    std::vector<double> state() {
        const std::int64_t elements = backend.layout().elements();
        std::vector<double> result(backend.weights(), backend.weights() + elements);
        for (const auto array : {trainer::StateArray::kM, trainer::StateArray::kV}) {
            const std::vector<double> moments = backend.moments(array);
            result.insert(result.end(), moments.begin(), moments.end());
        }
        return result;
    }
    std::int64_t offset(std::string_view name) const {
        const auto& layout = backend.layout();
        for (std::size_t i = 0; i < layout.parameters().size(); ++i) {
            if (layout.parameters()[i].name == name) {
                return layout.offset(i);
            }
        }
        FAIL("no parameter of this name");
        return 0;
    }

    StepCase step;
    CpuBackend<double> backend;
    std::atomic<bool> stop = false;
    Executor executor{step.plan, backend, &stop};
};

std::string message_of_step(Trained& trained) {
    try {
        trained.executor.compute_gradients(trained.views(), kSettings);
    } catch (const NumericError& error) {
        return error.what();
    }
    return "no error";
}

TEST_CASE("NaN or infinity in a weight: its tensor is named, nothing is changed") {
    for (const double bad : {std::numeric_limits<double>::quiet_NaN(), std::numeric_limits<double>::infinity()}) {
        Trained trained;
        const std::string name = "model.layers.1.self_attn.v_proj.weight";
        trained.backend.weights()[trained.offset(name) + 5] = bad;
        const auto before = trained.state();
        const std::string message = message_of_step(trained);
        CHECK(message.find("weight " + name + ", element 5") != std::string::npos);
        CHECK(same_bits(trained.state(), before));
    }
}

TEST_CASE("NaN in a gradient: its tensor is named, nothing is changed") {
    Trained trained;
    const std::string name = "model.layers.0.mlp.up_proj.weight";
    const std::int64_t at = trained.offset(name) + 7;
    trained.backend.on_done = [&](const schedule::Operation& operation) {
        if (operation.id.kind == Kind::kEmbeddingBackward) {
            trained.backend.gradients()[at] = std::numeric_limits<double>::quiet_NaN();
        }
    };
    const auto before = trained.state();
    const std::string message = message_of_step(trained);
    CHECK(message.find("gradient of " + name + ", element 7") != std::string::npos);
    CHECK(message.find("weights were not changed") != std::string::npos);
    CHECK(same_bits(trained.state(), before));
}

TEST_CASE("gradients that overflow when squared are refused though each is finite") {
    Trained trained;
    trained.backend.on_done = [&](const schedule::Operation& operation) {
        if (operation.id.kind == Kind::kEmbeddingBackward) {
            trained.backend.gradients()[3] = 1e200;
        }
    };
    const auto before = trained.state();
    CHECK(message_of_step(trained).find("every weight and gradient is finite") != std::string::npos);
    CHECK(same_bits(trained.state(), before));
}

TEST_CASE("a stop within a step leaves weights and moments as they were") {
    for (const Order order : {Order::kInOrder, Order::kShuffled, Order::kThreads}) {
        for (const int operations : {0, 1, 50, 300}) {
            CAPTURE(operations);
            Trained trained(order);
            const auto before = trained.state();
            trained.stop = operations == 0;
            std::atomic<int> done = 0;
            trained.backend.on_done = [&](const schedule::Operation&) {
                if (++done >= operations) {
                    trained.stop = true;
                }
            };
            CHECK_THROWS_AS(trained.executor.compute_gradients(trained.views(), kSettings), trainer::Interrupted);
            trained.backend.wait_idle();
            CHECK(same_bits(trained.state(), before));
        }
    }
}

TEST_CASE("an update without gradients of its own is refused and changes nothing") {
    Trained trained;
    const auto refuse = [&] {
        const auto before = trained.state();
        CHECK_THROWS_AS(trained.executor.update_weights(), InternalError);
        CHECK(same_bits(trained.state(), before));
    };
    refuse();  // a second time
    trained.executor.compute_gradients(trained.views(), kSettings);
    trained.stop = true;
    CHECK_THROWS_AS(trained.executor.compute_gradients(trained.views(), kSettings), trainer::Interrupted);
    trained.backend.wait_idle();
    refuse();  // after gradients that were given up
}

TEST_CASE("sequences that can't be computed are refused before anything runs") {
    Trained trained;
    const std::uint64_t before = trained.executor.issuer().issued();
    const auto refuse = [&](const TestSequence& sequence, const char* why) {
        const std::vector<SequenceView> views = {sequence.view()};
        CHECK_THROWS_WITH_AS(trained.executor.compute_gradients(views, kSettings), doctest::Contains(why), UsageError);
    };
    refuse({}, "0 tokens");
    refuse(random_sequence(54, 50, 1), "54 tokens");
    refuse({{1, 2}, {1}}, "2 tokens and 1 targets");
    refuse({{1, 2}, {-100, -100}}, "none of its 2 targets");
    CHECK(trained.executor.issuer().issued() == before);
}

}  // namespace
}  // namespace oomb::testing
