#include "trainer/weights/check_weights.hpp"

#include <algorithm>
#include <set>

#include "runtime/core/error.hpp"
#include "trainer/weights/parameters.hpp"

namespace oomb::trainer {
namespace {

constexpr std::string_view kEmbeddingName = "model.embed_tokens.weight";
constexpr std::string_view kInverseFrequencySuffix = ".rotary_emb.inv_freq";

// "3 (a, b, c)", at most five names.
std::string some_of(const std::vector<std::string>& names) {
    constexpr std::size_t kShown = 5;
    std::string shown;
    for (std::size_t i = 0; i < std::min(kShown, names.size()); ++i) {
        shown += (i == 0 ? "" : ", ") + quoted_name(names[i]);
    }
    return fmt::format("{} ({}{})", names.size(), shown, names.size() > kShown ? ", ..." : "");
}

void check_parameter(const WeightFolder& weights, const TensorInfo& tensor, const ParameterInfo& parameter) {
    const std::string name = quoted_name(tensor.name);
    if (!tensor.dtype) {
        fail<UnsupportedError>(
            "{}: tensor {} has dtype {}; quantised weights cannot be trained here, use a checkpoint "
            "in BF16, F16, F32 or F64",
            weights.path().string(), name, tensor.dtype_name);
    }
    if (tensor.shape != parameter.shape) {
        fail<FileError>("{}: tensor {} has shape {}, config.json asks for {}", weights.path().string(), name,
                        list_text(tensor.shape), list_text(parameter.shape));
    }
}

void check_tied_head(const WeightFolder& weights, const TensorInfo& head) {
    const TensorInfo& embedding = *weights.find(kEmbeddingName);
    const auto head_bytes = weights.bytes(head.name);
    const auto embedding_bytes = weights.bytes(kEmbeddingName);
    const bool same = head.dtype == embedding.dtype && head.shape == embedding.shape &&
                      std::equal(head_bytes.begin(), head_bytes.end(), embedding_bytes.begin(), embedding_bytes.end());
    if (!same) {
        fail<FileError>(
            "{}: config.json ties the embeddings, but \"{}\" differs from \"{}\"; set tie_word_embeddings to "
            "false to train both",
            weights.path().string(), kHeadName, kEmbeddingName);
    }
}

}  // namespace

std::vector<std::string> check_weights(const WeightFolder& weights, const ModelShape& shape) {
    std::set<std::string> known;
    std::vector<std::string> missing;
    for (const ParameterInfo& parameter : parameters_of(shape)) {
        known.insert(parameter.name);
        if (const TensorInfo* tensor = weights.find(parameter.name)) {
            check_parameter(weights, *tensor, parameter);
        } else {
            missing.push_back(parameter.name);
        }
    }
    std::vector<std::string> unexpected;
    std::vector<std::string> tolerated;
    for (const TensorInfo* tensor : weights.list()) {
        if (known.contains(tensor->name)) {
            continue;
        }
        const bool is_tied_head = shape.tied_embeddings && tensor->name == kHeadName;
        const bool is_known_extra = is_tied_head || tensor->name.ends_with(kInverseFrequencySuffix);
        (is_known_extra ? tolerated : unexpected).push_back(tensor->name);
    }
    if (!missing.empty() || !unexpected.empty()) {
        fail<FileError>("{}: the weights do not fit config.json: missing tensors {}, unexpected tensors {}",
                        weights.path().string(), some_of(missing), some_of(unexpected));
    }
    if (const TensorInfo* head = weights.find(kHeadName); head != nullptr && shape.tied_embeddings) {
        check_tied_head(weights, *head);
    }
    return tolerated;
}

}  // namespace oomb::trainer
