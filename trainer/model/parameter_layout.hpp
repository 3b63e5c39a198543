#pragma once
// Where each parameter lies in the regions of weights, gradients and moments: one after the other in the order of
// parameters_of(), without gaps, so that q, k, v and gate, up are one matrix each.

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
    // Offset of a parameter of a layer (-1 outside the layers). kHead of a tied model is the embedding.
    std::int64_t offset(ParameterKind kind, std::int64_t layer = -1) const;

  private:
    std::vector<ParameterInfo> parameters_;
    std::vector<std::int64_t> offsets_;  // one more than parameters
    std::map<std::pair<ParameterKind, std::int64_t>, std::int64_t> by_kind_;
};

}  // namespace oomb::trainer
