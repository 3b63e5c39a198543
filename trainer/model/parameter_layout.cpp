#include "trainer/model/parameter_layout.hpp"

#include "runtime/core/error.hpp"

namespace oomb::trainer {

ParameterLayout::ParameterLayout(const ModelShape& shape) : parameters_(parameters_of(shape)) {
    std::int64_t offset = 0, vector_offset = 0;
    for (const ParameterInfo& parameter : parameters_) {
        by_kind_[{parameter.kind, parameter.layer}] = offsets_.size();
        offsets_.push_back(offset);
        vector_offsets_.push_back(vector_offset);
        offset += parameter.elements;
        vector_offset += is_vector(parameter.kind) ? parameter.elements : 0;
    }
    offsets_.push_back(offset);
    vector_offsets_.push_back(vector_offset);
    if (shape.tied_embeddings) {
        by_kind_[{ParameterKind::kHead, -1}] = by_kind_.at({ParameterKind::kEmbedding, -1});
    }
    require(offset == shape.parameters() && vector_offset == shape.vector_parameters(),
            "parameter layout: {} elements, of them {} in vectors; the shape says {} and {}", offset, vector_offset,
            shape.parameters(), shape.vector_parameters());
}

std::size_t ParameterLayout::index(ParameterKind kind, std::int64_t layer) const {
    const auto found = by_kind_.find({kind, layer});
    require(found != by_kind_.end(), "parameter layout: kind {} of layer {} does not exist", static_cast<int>(kind),
            layer);
    return found->second;
}

}  // namespace oomb::trainer
