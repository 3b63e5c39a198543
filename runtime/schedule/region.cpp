#include "runtime/schedule/region.hpp"

namespace oomb::schedule {

#define OOMB_REGION_TEXT(name, text, why) text,
#define OOMB_REGION_WHY(name, text, why) why,

std::string_view name_of(RegionName region) {
    static constexpr std::string_view kNames[] = {OOMB_REGIONS(OOMB_REGION_TEXT)};
    return kNames[static_cast<int>(region)];
}

std::string_view explanation_of(RegionName region) {
    static constexpr std::string_view kReasons[] = {OOMB_REGIONS(OOMB_REGION_WHY)};
    return kReasons[static_cast<int>(region)];
}

}  // namespace oomb::schedule
