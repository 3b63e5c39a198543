#include "profiler/record/listener.hpp"

#include <generated_nvtx_meta.h>

#include <string_view>

#include "profiler/record/decode.hpp"
#include "profiler/record/exchange.hpp"
#include "runtime/trace/operation_marks.hpp"

namespace oomb::profiler {
namespace {

// Of this thread: ranges of operations that are open, all of one domain.
thread_local const void* mark_domain = nullptr;
thread_local int mark_depth = 0;

RangeStack stack_of_this_thread(const void* domain) {
    return {reinterpret_cast<std::uint64_t>(&mark_depth), domain};
}

bool is_number(const nvtxEventAttributes_t& range, std::uint32_t category) {
    return range.category == category && range.payloadType == NVTX_PAYLOAD_TYPE_UNSIGNED_INT64;
}

// Where the range says it itself.
std::optional<std::int64_t> step_number(const nvtxEventAttributes_t& range) {
    constexpr std::uint64_t kMostSteps = std::uint64_t{1} << 62;
    return is_number(range, trace::kStepCategory) && range.payload.ullValue < kMostSteps
               ? std::optional(static_cast<std::int64_t>(range.payload.ullValue))
               : std::nullopt;
}

nvtxEventAttributes_t named(const char* text) {
    nvtxEventAttributes_t range{};
    range.messageType = NVTX_MESSAGE_TYPE_ASCII;
    range.message.ascii = text;
    return range;
}

template <class P>
const P& as(const void* parameters) {
    return *static_cast<const P*>(parameters);
}

}  // namespace

Listener::Listener(const RecordingRequest& request, KindSwitch& kinds)
    : request_(request),
      kinds_(kinds),
      watching_(request.window.steps.has_value()),
      watch_(request.window.steps.value_or(StepRange{})) {}

std::vector<Refusal> Listener::listen(CUpti_SubscriberHandle subscriber) {
    std::vector<Refusal> refusals;
    const auto enable = [&](CUpti_CallbackDomain domain, CUpti_CallbackId id, const char* what) {
        if (const CUptiResult result = cuptiEnableCallback(1, subscriber, domain, id); result != CUPTI_SUCCESS) {
            refusals.push_back({result, what});
        }
    };
    const auto enable_ranges = [&](std::initializer_list<CUpti_CallbackId> ids, const char* what) {
        for (const CUpti_CallbackId id : ids) {
            enable(CUPTI_CB_DOMAIN_NVTX, id, what);
        }
    };
    if (request_.operations || request_.window.steps) {
        enable_ranges({CUPTI_CBID_NVTX_nvtxDomainRangePushEx, CUPTI_CBID_NVTX_nvtxDomainRangePop},
                      request_.operations ? "operations" : "steps");
    }
    if (!request_.window.step_range.empty()) {
        enable_ranges({CUPTI_CBID_NVTX_nvtxRangePushA, CUPTI_CBID_NVTX_nvtxRangePushEx, CUPTI_CBID_NVTX_nvtxRangePop,
                       CUPTI_CBID_NVTX_nvtxRangeStartA, CUPTI_CBID_NVTX_nvtxRangeStartEx, CUPTI_CBID_NVTX_nvtxRangeEnd,
                       CUPTI_CBID_NVTX_nvtxDomainRangeStartEx, CUPTI_CBID_NVTX_nvtxDomainRangeEnd,
                       CUPTI_CBID_NVTX_nvtxDomainRegisterStringA},
                      "steps");
    }
    return refusals;
}

void CUPTIAPI Listener::call(void* listener, CUpti_CallbackDomain domain, CUpti_CallbackId id, const void* data) {
    if (domain == CUPTI_CB_DOMAIN_NVTX) {
        static_cast<Listener*>(listener)->hear_range(id, as<CUpti_NvtxData>(data));
    }
}

void Listener::hear_range(CUpti_CallbackId id, const CUpti_NvtxData& data) {
    const void* p = data.functionParams;
    const auto push = [&](const void* domain, const nvtxEventAttributes_t* range) {
        if (range != nullptr) {
            hear_push(domain, *range);
        }
    };
    const auto start = [&](const nvtxEventAttributes_t* range) {
        if (range != nullptr) {
            hear_start(*range, data.functionReturnValue);
        }
    };
    switch (id) {
        case CUPTI_CBID_NVTX_nvtxDomainRangePushEx:
            return push(as<nvtxDomainRangePushEx_params>(p).domain,
                        as<nvtxDomainRangePushEx_params>(p).core.eventAttrib);
        case CUPTI_CBID_NVTX_nvtxRangePushEx:
            return push(nullptr, as<nvtxRangePushEx_params>(p).eventAttrib);
        case CUPTI_CBID_NVTX_nvtxRangePushA:
            return hear_push(nullptr, named(as<nvtxRangePushA_params>(p).message));
        case CUPTI_CBID_NVTX_nvtxDomainRangePop:
            return hear_pop(as<nvtxDomainRangePop_params>(p).domain);
        case CUPTI_CBID_NVTX_nvtxRangePop:
            return hear_pop(nullptr);
        case CUPTI_CBID_NVTX_nvtxDomainRangeStartEx:
            return start(as<nvtxDomainRangeStartEx_params>(p).core.eventAttrib);
        case CUPTI_CBID_NVTX_nvtxRangeStartEx:
            return start(as<nvtxRangeStartEx_params>(p).eventAttrib);
        case CUPTI_CBID_NVTX_nvtxRangeStartA:
            return hear_start(named(as<nvtxRangeStartA_params>(p).message), data.functionReturnValue);
        case CUPTI_CBID_NVTX_nvtxDomainRangeEnd:
            return hear_end(as<nvtxDomainRangeEnd_params>(p).core.id);
        case CUPTI_CBID_NVTX_nvtxRangeEnd:
            return hear_end(as<nvtxRangeEnd_params>(p).id);
        case CUPTI_CBID_NVTX_nvtxDomainRegisterStringA:
            return hear_string(as<nvtxDomainRegisterStringA_params>(p).string, data.functionReturnValue);
        default:
            return;
    }
}

// Calls within the range of an operation are correlated with it. Other ranges are none of ours.
void Listener::hear_push(const void* domain, const nvtxEventAttributes_t& range) {
    if (watching_) {
        WindowEvent event = WindowEvent::kNone;
        {
            const std::lock_guard lock(mutex_);
            if (is_step(range)) {
                event = watch_.push_step(stack_of_this_thread(domain), step_number(range));
            } else {
                watch_.push_other(stack_of_this_thread(domain));
            }
        }
        move(event);
    }
    if (request_.operations && kinds_.is_on() && is_number(range, trace::kMarkCategory)) {
        push_mark(domain, range.payload.ullValue);
    }
}

void Listener::hear_start(const nvtxEventAttributes_t& range, const void* id) {
    WindowEvent event = WindowEvent::kNone;
    if (watching_) {
        const std::lock_guard lock(mutex_);
        if (is_step(range)) {
            event = watch_.start_step(id == nullptr ? 0 : *static_cast<const nvtxRangeId_t*>(id), step_number(range));
        }
    }
    move(event);
}

void Listener::hear_pop(const void* domain) {
    pop_mark(domain);
    WindowEvent event = WindowEvent::kNone;
    if (watching_) {
        const std::lock_guard lock(mutex_);
        event = watch_.pop(stack_of_this_thread(domain));
    }
    move(event);
}

void Listener::hear_end(std::uint64_t id) {
    WindowEvent event = WindowEvent::kNone;
    if (watching_) {
        const std::lock_guard lock(mutex_);
        event = watch_.end(id);
    }
    move(event);
}

void Listener::hear_string(const char* text, const void* handle) {
    if (watching_ && text != nullptr && handle != nullptr && request_.window.step_range == text) {
        const std::lock_guard lock(mutex_);
        step_names_.insert(*static_cast<const void* const*>(handle));
    }
}

void Listener::push_mark(const void* domain, std::uint64_t operation) {
    if (cuptiActivityPushExternalCorrelationId(kOperationCorrelation, operation) != CUPTI_SUCCESS) {
        refused_marks_ += 1;
        return;
    }
    mark_domain = domain;
    ++mark_depth;
}

void Listener::pop_mark(const void* domain) {
    if (mark_depth == 0 || domain != mark_domain) {
        return;
    }
    std::uint64_t popped = 0;
    --mark_depth;
    if (cuptiActivityPopExternalCorrelationId(kOperationCorrelation, &popped) != CUPTI_SUCCESS) {
        refused_marks_ += 1;
    }
}

bool Listener::is_step(const nvtxEventAttributes_t& range) const {
    if (request_.window.step_range.empty()) {
        return is_number(range, trace::kStepCategory);
    }
    switch (range.messageType) {
        case NVTX_MESSAGE_TYPE_ASCII:
            return range.message.ascii != nullptr && request_.window.step_range == range.message.ascii;
        case NVTX_MESSAGE_TYPE_REGISTERED:
            return step_names_.contains(range.message.registered);
        default:
            return false;
    }
}

void Listener::move(WindowEvent event) {
    if (event == WindowEvent::kNone) {
        return;
    }
    if (event == WindowEvent::kBegins) {
        kinds_.on();
    } else {
        kinds_.off();
        watching_ = false;
    }
    {
        const std::lock_guard lock(exchange().mutex);
        exchange().window_moved = true;
    }
    exchange().arrived.notify_one();
}

std::int64_t Listener::seen_steps() const {
    const std::lock_guard lock(mutex_);
    return watch_.seen();
}

}  // namespace oomb::profiler
