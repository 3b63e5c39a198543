#include "trainer/model/parameter_layout.hpp"

#include "runtime/core/error.hpp"

namespace oomb::trainer {

ParameterLayout::ParameterLayout(const ModelShape& shape) : parameters_(parameters_of(shape)) {
    std::int64_t offset = 0;
    for (const ParameterInfo& parameter : parameters_) {
        offsets_.push_back(offset);
        by_kind_[{parameter.kind, parameter.layer}] = offset;
        offset += parameter.elements;
    }
    offsets_.push_back(offset);
    if (shape.tied_embeddings) {
        by_kind_[{ParameterKind::kHead, -1}] = by_kind_.at({ParameterKind::kEmbedding, -1});
    }
    require(offset == shape.parameters(), "parameter layout: {} elements, the shape says {}", offset,
            shape.parameters());
}

std::int64_t ParameterLayout::offset(ParameterKind kind, std::int64_t layer) const {
    const auto found = by_kind_.find({kind, layer});
    require(found != by_kind_.end(), "parameter layout: kind {} of layer {} does not exist", static_cast<int>(kind),
            layer);
    return found->second;
}

}  // namespace oomb::trainer
