#include "trainer/cuda/operation_mark.hpp"

#include <nvtx3/nvToolsExt.h>

#include <array>
#include <string>

#include "runtime/trace/operation_marks.hpp"

namespace oomb::trainer {
namespace {

// Names are given to NVTX once, not with every range.
struct Words {
    nvtxDomainHandle_t domain = nvtxDomainCreateA(trace::kMarkDomain);
    std::array<nvtxStringHandle_t, schedule::kKinds> kinds{};

    Words() {
        for (int kind = 0; kind < schedule::kKinds; ++kind) {
            const std::string name(schedule::name_of(static_cast<schedule::Kind>(kind)));
            kinds[static_cast<std::size_t>(kind)] = nvtxDomainRegisterStringA(domain, name.c_str());
        }
    }
};

// Made at the first operation: a recorder that is to hear them is there by then.
const Words& words() {
    static const Words kMade;
    return kMade;
}

nvtxEventAttributes_t numbered(std::uint32_t category, std::uint64_t number) {
    nvtxEventAttributes_t range{};
    range.version = NVTX_VERSION;
    range.size = NVTX_EVENT_ATTRIB_STRUCT_SIZE;
    range.category = category;
    range.payloadType = NVTX_PAYLOAD_TYPE_UNSIGNED_INT64;
    range.payload.ullValue = number;
    return range;
}

}  // namespace

OperationMark::OperationMark(const schedule::OperationId& id) {
    nvtxEventAttributes_t range = numbered(trace::kMarkCategory, schedule::pack(id));
    range.messageType = NVTX_MESSAGE_TYPE_REGISTERED;
    range.message.registered = words().kinds[static_cast<std::size_t>(id.kind)];
    nvtxDomainRangePushEx(words().domain, &range);
}

OperationMark::~OperationMark() {
    nvtxDomainRangePop(words().domain);
}

StepMark::StepMark(std::int64_t step) {
    const std::string name = "step " + std::to_string(step);
    nvtxEventAttributes_t range = numbered(trace::kStepCategory, static_cast<std::uint64_t>(step));
    range.messageType = NVTX_MESSAGE_TYPE_ASCII;
    range.message.ascii = name.c_str();
    nvtxDomainRangePushEx(words().domain, &range);
}

StepMark::~StepMark() {
    nvtxDomainRangePop(words().domain);
}

}  // namespace oomb::trainer
