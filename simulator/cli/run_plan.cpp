#include "simulator/cli/run_plan.hpp"

#include <algorithm>
#include <iterator>
#include <string_view>
#include <vector>

#include "runtime/core/nearest.hpp"
#include "runtime/flags/command_line.hpp"
#include "simulator/cli/commands.hpp"

namespace oomb::simulator {
namespace {

constexpr const char* kProgram = "oomb-plan";

struct Command {
    std::string_view name;
    ExitCode (*run)(const Call& call);
};
constexpr Command kCommands[] = {{"fit", fit},           {"best", best},         {"max-context", max_context},
                                 {"sweep", sweep},       {"timeline", timeline}, {"replay", replay},
                                 {"policies", policies}, {"locality", locality}, {"calibrate", calibrate}};

// A word in the place of a sub-command that is none.
[[noreturn]] void refuse_command(std::string_view word) {
    std::vector<std::string> names;
    for (const Command& command : kCommands) {
        names.emplace_back(command.name);
    }
    fail<UsageError>("found \"{}\", which is no sub-command; there are {}{}", word, fmt::join(names, ", "),
                     did_you_mean(word, names));
}

}  // namespace

int run_plan(int argc, const char* const* argv, std::ostream& out, std::ostream& err) {
    const std::string_view first = argc > 1 ? argv[1] : "";
    const auto* named = std::find_if(std::begin(kCommands), std::end(kCommands),
                                     [&](const Command& command) { return command.name == first; });
    const bool is_named = named != std::end(kCommands);
    const Call call{is_named ? fmt::format("{} {}", kProgram, first) : kProgram, is_named ? argc - 1 : argc,
                    is_named ? argv + 1 : argv, out, err};
    return static_cast<int>(run_guarded(call.program, err, [&] {
        if (!is_named && argc > 1 && !first.starts_with('-')) {
            refuse_command(first);
        }
        return is_named ? named->run(call) : fit(call);
    }));
}

}  // namespace oomb::simulator
