#include "trainer/executor/operand_regions.hpp"

namespace oomb::trainer {

using schedule::Kind;
using enum schedule::RegionName;

LinearRegions linear_regions(Kind kind) {
    switch (kind) {
        case Kind::kLinearQkvWeightGradient:
        case Kind::kLinearQkvInputGradient:
            return {kQkv, kNormed, kNormedGradient, ParameterKind::kQWeight, true};
        case Kind::kLinearOutputWeightGradient:
        case Kind::kLinearOutputInputGradient:
            return {kStreamGradient, kAttentionOutput, kOutputGradient, ParameterKind::kOWeight, true};
        case Kind::kLinearGateUpWeightGradient:
        case Kind::kLinearGateUpInputGradient:
            return {kGateUp, kNormed, kNormedGradient, ParameterKind::kGateWeight, true};
        case Kind::kLinearDownWeightGradient:
        case Kind::kLinearDownInputGradient:
            return {kStreamGradient, kFfnActivation, kFfnGradient, ParameterKind::kDownWeight, true};
        default:
            return {kLogits, kTileNormed, kNormedGradient, ParameterKind::kHead, false};
    }
}

NormRegions norm_regions(Kind kind) {
    switch (kind) {
        case Kind::kInputNorm:
        case Kind::kInputNormBackward:
            return {kLayerInput, kNormed, kNormedGradient, ParameterKind::kInputNorm, true};
        case Kind::kPostNorm:
        case Kind::kPostNormBackward:
            return {kMiddle, kNormed, kNormedGradient, ParameterKind::kPostNorm, true};
        default:
            return {kFinalHidden, kTileNormed, kNormedGradient, ParameterKind::kFinalNorm, false};
    }
}

}  // namespace oomb::trainer
