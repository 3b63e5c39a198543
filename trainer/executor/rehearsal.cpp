#include "trainer/executor/rehearsal.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <numeric>
#include <set>
#include <utility>

#include "runtime/schedule/generator.hpp"
#include "runtime/schedule/optimizer_schedule.hpp"
#include "trainer/executor/gradient_places.hpp"

namespace oomb::trainer {
namespace {

using issue::IssuedOperation;
using schedule::Kind;
using schedule::Operation;

// Regions and slots begin at multiples of 256 bytes, parameters anywhere: layers whose parameters begin at the same
// place modulo this many elements of two bytes or more multiply by weights that are aligned alike.
constexpr std::int64_t kAlignmentElements = schedule::kRegionAlignment_bytes / 2;

class ShapeCollector : public schedule::OperationSink {
  public:
    ShapeCollector(const schedule::StepShape& step, const ParameterLayout& layout)
        : page_tokens_(step.run().page_tokens),
          list_length_(step.run().top_k),
          layout_(layout),
          gradient_places_(layout, step.run()),
          shards_(optimizer_shards(step)) {
        for (std::int64_t layer = 0; layer < step.model().layers; ++layer) {
            layer_places_.push_back(layout.offset(ParameterKind::kInputNorm, layer) % kAlignmentElements);
        }
    }

    void take(const Operation& operation) override {
        if (operation.engine != schedule::Engine::kCompute || operation.id.kind == Kind::kRelease) {
            return;
        }
        if (known_.insert(shape_of(operation)).second) {
            add(operation);
        }
    }
    std::vector<IssuedOperation> take_operations() { return std::move(operations_); }

  private:
    using Shape = std::array<std::int64_t, 8>;

    Shape shape_of(const Operation& operation) const {
        std::int64_t regions = 0;  // their names, six bits each
        static_assert(schedule::kRegions < 64);
        for (const schedule::RegionUse& use : operation.regions) {
            regions = regions * 64 + static_cast<std::int64_t>(use.region) + 1;
        }
        Shape shape = {static_cast<std::int64_t>(operation.id.kind), variant_of(operation.id), operation.rows, regions};
        switch (operation.id.kind) {
            case Kind::kPageScores:
            case Kind::kSelectPages:
            case Kind::kPageMass:
            case Kind::kPageRecall:
                return shape;  // our kernels take any number of pages
            default:
                break;
        }
        if (const auto* gemm = std::get_if<schedule::GemmCost>(&operation.cost)) {
            shape[4] = layer_places_[operation.id.layer];
            shape[5] = gemm->m, shape[6] = gemm->n, shape[7] = gemm->k;
        } else if (const auto* attention = std::get_if<schedule::AttentionCost>(&operation.cost)) {
            shape[5] = attention->queries, shape[6] = attention->keys;
            const int causal = attention->first_key == attention->first_query ? 1 : 0;
            shape[7] = causal + (attention->sliding_window > 0 ? 2 : 0) + (attention->listed ? 4 : 0);
        } else if (const auto* pass = std::get_if<schedule::ElementwiseCost>(&operation.cost)) {
            shape[5] = pass->bytes;
        }
        if (operation.id.kind == Kind::kOptimizer) {
            shape[6] = parts_of(operation.id.part);
        }
        return shape;
    }

    // A bit for each kind of part that a shard has: vector or matrix (their gradients may differ in type), and the
    // power of two that divides its places among weights and gradients. States begin with the shard, which is aligned.
    std::int64_t parts_of(std::int64_t shard) const {
        std::uint64_t parts = 0;
        layout_.for_each_part(
            shards_.first(shard), shards_.size(shard), [&](std::size_t parameter, std::int64_t first, std::int64_t) {
                const std::int64_t gradient = gradient_places_.of(parameter).first + first - layout_.offset(parameter);
                const int power = std::countr_zero(static_cast<std::uint64_t>(first | gradient | kAlignmentElements));
                parts |= std::uint64_t{1} << (2 * power + (is_vector(layout_.parameters()[parameter].kind) ? 1 : 0));
            });
        return static_cast<std::int64_t>(parts);
    }

    // Which of an operation's ways its part chooses. Other parts count windows, tiles and shards.
    static std::int64_t variant_of(const schedule::OperationId& id) {
        switch (id.kind) {
            case Kind::kLinearQkv:
            case Kind::kRope:
                return id.part;
            case Kind::kAttention:
            case Kind::kAttentionBackward:
                return id.part == 0 ? 0 : 1;
            default:
                return 0;
        }
    }

    void add(const Operation& operation) {
        IssuedOperation issued;
        issued.operation = operation;
        issued.number = issued.ticket = operations_.size() + 1;
        for (const schedule::PageRequest& request : operation.requests) {
            paging::Grant grant;
            grant.page_class = request.pages.page_class;
            for (std::int64_t i = request.pages.count - 1; i >= 0; --i) {
                grant.frames.push_back(static_cast<std::int32_t>(i));
            }
            if (request.use == PageUse::kAccumulate) {
                grant.first_touch.assign(grant.frames.size(), 1);
            }
            if (request.listed) {
                issued.lists = lists_over(request.pages.count, schedule::divide_up(operation.rows, page_tokens_));
            }
            issued.grants.push_back(std::move(grant));
        }
        operations_.push_back(std::move(issued));
    }

    // Lists that between them name each of the pages.
    std::shared_ptr<const issue::PageLists> lists_over(std::int64_t pages, std::int64_t query_pages) const {
        std::vector<std::int32_t> lists(query_pages * list_length_);
        for (std::int64_t i = 0; i < query_pages; ++i) {
            const auto list = lists.begin() + i * list_length_;
            std::iota(list, list + list_length_,
                      static_cast<std::int32_t>(std::min(i * list_length_, pages - list_length_)));
        }
        return std::make_shared<const issue::PageLists>(
            issue::checked_lists(std::move(lists), 0, 0, query_pages, list_length_, pages));
    }

    const std::int64_t page_tokens_, list_length_;
    const ParameterLayout& layout_;
    const GradientPlaces gradient_places_;
    const schedule::OptimizerShards shards_;
    std::vector<std::int64_t> layer_places_;
    std::set<Shape> known_;
    std::vector<IssuedOperation> operations_;
};

}  // namespace

std::vector<IssuedOperation> rehearsal_of(const schedule::Plan& plan, const ParameterLayout& layout) {
    const schedule::StepShape step(plan.model, plan.run);
    ShapeCollector shapes(step, layout);
    schedule::SequenceGenerator(step, 0, 1, shapes).generate();
    schedule::generate_optimizer(step, shapes);
    return shapes.take_operations();
}

}  // namespace oomb::trainer
