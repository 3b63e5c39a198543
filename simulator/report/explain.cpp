#include "simulator/report/explain.hpp"

#include <algorithm>

#include "simulator/report/alternatives.hpp"
#include "simulator/report/render.hpp"

namespace oomb::simulator {

std::string model_name(const std::filesystem::path& given) {
    const std::filesystem::path path = std::filesystem::absolute(given).lexically_normal();
    const bool names_a_folder = path.filename().empty() || path.filename() == "config.json";
    const std::filesystem::path named = names_a_folder ? path.parent_path() : path;
    return (named.extension() == ".json" ? named.stem() : named.filename()).string();
}

std::string explain_excess(const schedule::Plan& plan, const std::vector<Excess>& excesses, const Limits& limits,
                           const HardwareProfile& profile) {
    const Target target{plan.model, limits, profile};
    const std::vector<Alternative> single = alternatives(target, plan.asked);
    std::string text = render_excesses(excesses) + "\nWhat changing one flag at a time would do (peak per tier):\n" +
                       render_alternatives(single, plan.run.device);
    const auto is_enough = [](const Alternative& one) { return one.fits() && one.costs_only_time; };
    if (std::any_of(single.begin(), single.end(), is_enough)) {
        return text;
    }
    if (const std::vector<Alternative> several = combinations(target, plan.asked); !several.empty()) {
        text += "\nSeveral together, first all that costs only time:\n" + render_alternatives(several, plan.run.device);
    }
    return text;
}

}  // namespace oomb::simulator
