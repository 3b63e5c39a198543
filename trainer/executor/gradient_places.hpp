#pragma once
// Where the gradient of a parameter lies, and in which type: the same on every device.
//
// Gradients lie in one region at the places of their weights, in the accumulator type. With bf16 gradients
// (RunConfiguration::bf16_gradients) those of matrices do so in bf16; those of vectors lie one behind the other in a
// region of their own, still in the accumulator type, and their places among the matrices stay 0.

#include "kernels/element.hpp"
#include "runtime/core/run_configuration.hpp"
#include "runtime/schedule/region.hpp"
#include "trainer/model/parameter_layout.hpp"

namespace oomb::trainer {

struct GradientPlace {
    schedule::RegionName region = schedule::RegionName::kGradients;
    bool narrow = false;               // in the compute type, not the accumulator type
    std::int64_t region_elements = 0;  // of that type
    std::int64_t first = 0;            // the gradient's first element in the region
};

class GradientPlaces {
  public:
    // `layout` outlives this.
    GradientPlaces(const ParameterLayout& layout, const RunConfiguration& run)
        : layout_(layout), apart_(run.gradient_type() != run.accumulator), none_(run.forward_only) {}

    bool none() const { return none_; }
    GradientPlace of(std::size_t parameter) const {
        if (apart_ && is_vector(layout_.parameters()[parameter].kind)) {
            return {schedule::RegionName::kVectorGradients, false, layout_.vector_elements(),
                    layout_.vector_offset(parameter)};
        }
        return {schedule::RegionName::kGradients, apart_, layout_.elements(), layout_.offset(parameter)};
    }

    // Calls visit(place) with each whole region; an evaluation has none.
    template <class Visit>
    void for_each_region(const Visit& visit) const {
        if (none_) {
            return;
        }
        visit(GradientPlace{schedule::RegionName::kGradients, apart_, layout_.elements(), 0});
        if (apart_) {
            visit(GradientPlace{schedule::RegionName::kVectorGradients, false, layout_.vector_elements(), 0});
        }
    }

  private:
    const ParameterLayout& layout_;
    bool apart_;  // vectors from matrices
    bool none_;
};

// Returns visit(pointer), a pointer to Accumulator<T> or T at the place's first element. `start.operator()<E>(place)`
// is the start of the region of elements E. T is the compute type.
template <class T, class Start, class Visit>
auto visit_gradient(const GradientPlace& place, const Start& start, const Visit& visit) {
    using A = kernels::Accumulator<T>;
    if constexpr (!std::is_same_v<T, A>) {
        if (place.narrow) {
            return visit(start.template operator()<T>(place) + place.first);
        }
    }
    return visit(start.template operator()<A>(place) + place.first);
}

}  // namespace oomb::trainer
