#include "profiler/record/exchange.hpp"

namespace oomb::profiler {

Exchange& exchange() {
    static auto* shared = new Exchange;
    return *shared;
}

}  // namespace oomb::profiler
