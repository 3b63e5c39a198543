#pragma once
// Where each parameter lies in the regions of weights, gradients and moments: one after the other in the order of
// parameters_of(), without gaps, so that q, k, v and gate, up are one matrix each.

#include <algorithm>
#include <map>
#include <vector>

#include "trainer/weights/parameters.hpp"

namespace oomb::trainer {

class ParameterLayout {
  public:
    explicit ParameterLayout(const ModelShape& shape);

    const std::vector<ParameterInfo>& parameters() const { return parameters_; }
    std::int64_t offset(std::size_t parameter) const { return offsets_[parameter]; }  // elements
    std::int64_t elements() const { return offsets_.back(); }
    // A parameter of a layer (-1 outside the layers). kHead of a tied model is the embedding.
    std::size_t index(ParameterKind kind, std::int64_t layer = -1) const;
    std::int64_t offset(ParameterKind kind, std::int64_t layer = -1) const { return offsets_[index(kind, layer)]; }
    // Where a vector (norm weight, bias) begins when all of them lie one after the other, without the matrices.
    std::int64_t vector_offset(std::size_t parameter) const { return vector_offsets_[parameter]; }
    std::int64_t vector_elements() const { return vector_offsets_.back(); }

    // The parts of parameters among the elements [first, first + count), in order: visit(number of the parameter, first
    // of the part, elements of the part).
    template <class Visit>
    void for_each_part(std::int64_t first, std::int64_t count, const Visit& visit) const {
        const std::int64_t end = first + count;
        auto parameter =
            static_cast<std::size_t>(std::upper_bound(offsets_.begin(), offsets_.end(), first) - offsets_.begin() - 1);
        for (; first < end; ++parameter) {
            const std::int64_t part_end = std::min(end, offsets_[parameter + 1]);
            visit(parameter, first, part_end - first);
            first = part_end;
        }
    }

  private:
    std::vector<ParameterInfo> parameters_;
    std::vector<std::int64_t> offsets_;         // one more than parameters
    std::vector<std::int64_t> vector_offsets_;  // the same; a matrix has no length in it
    std::map<std::pair<ParameterKind, std::int64_t>, std::size_t> by_kind_;
};

}  // namespace oomb::trainer
