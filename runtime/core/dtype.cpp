#include "runtime/core/dtype.hpp"

#include <array>
#include <utility>

#include "runtime/core/error.hpp"

namespace oomb {

namespace {

constexpr std::array<std::pair<DType, std::string_view>, 4> kNames{
    {{DType::kF64, "fp64"}, {DType::kF32, "fp32"}, {DType::kBF16, "bf16"}, {DType::kF16, "fp16"}}};

}  // namespace

std::string_view name_of(DType type) {
    for (const auto& [candidate, name] : kNames) {
        if (candidate == type) {
            return name;
        }
    }
    fail<InternalError>("element type {} has no name", static_cast<int>(type));
}

DType parse_dtype(std::string_view text) {
    for (const auto& [type, name] : kNames) {
        if (name == text) {
            return type;
        }
    }
    fail<UsageError>("element type: found \"{}\", allowed are fp64, fp32, bf16, fp16", text);
}

}  // namespace oomb
