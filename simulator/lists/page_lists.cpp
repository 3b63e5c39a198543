#include "simulator/lists/page_lists.hpp"

#include <utility>

#include "runtime/core/error.hpp"

namespace oomb::simulator {

ListSource read_list_source(const std::string& locality, const std::string& page_trace, AttentionMode attention) {
    for (const auto& [name, value] : {std::pair{"--locality", &locality}, {"--page-trace", &page_trace}}) {
        if (!value->empty() && attention != AttentionMode::kTopK) {
            fail<UsageError>("{}: found {}, but lists of pages need --attention topk --top-k K", name, *value);
        }
    }
    if (!locality.empty() && !page_trace.empty()) {
        fail<UsageError>("--locality and --page-trace: lists come from one of them; leave one out");
    }
    ListSource source;
    if (!locality.empty()) {
        source.locality = read_locality(locality);
    }
    if (!page_trace.empty()) {
        source.recorded = std::make_shared<const PageTrace>(read_page_trace(page_trace));
    }
    return source;
}

}  // namespace oomb::simulator
