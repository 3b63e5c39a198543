#include "profiler/cli/run_profile.hpp"

#include <algorithm>
#include <iterator>
#include <string_view>

#include "profiler/cli/commands.hpp"
#include "runtime/flags/command_line.hpp"

namespace oomb::profiler {
namespace {

constexpr const char* kProgram = "oomb-profile";
constexpr const char* kDescription =
    "Records what the GPU did while a program ran, and says how much of the copies compute hid.\n"
    "\n"
    "  oomb-profile run [--out FILE] -- COMMAND ...     record COMMAND\n"
    "  oomb-profile report FILE                         show a recording\n"
    "  oomb-profile compare --trace FILE --profile FILE hold it against the trace of the same run\n"
    "\n"
    "Each of them has a --help of its own. oomb-train --profile FILE records without `run`.";
constexpr const char* kFooter =
    "Exit code: 0 done; 1 failed; 2 wrong usage; `run` passes on the exit code of COMMAND.\n"
    "\n"
    "Example:\n"
    "  oomb-profile run --out step.profile -- python train.py\n"
    "  oomb-profile report step.profile\n";

struct Command {
    std::string_view name;
    ExitCode (*run)(const Call& call);
};
constexpr Command kCommands[] = {{"run", run}, {"report", report}, {"compare", compare_files}};

// None of the commands: help, version, or a fault.
ExitCode answer(const Call& call) {
    CLI::App app(kDescription, kProgram);
    prepare_command_line(app, kFooter);
    std::string command;
    app.add_option("COMMAND", command, "run, report or compare")->type_name("")->required();
    if (const auto end = parse_command_line(app, call.argc, call.argv, call.out, call.err)) {
        return *end;
    }
    fail<UsageError>("found the command \"{}\", allowed is run, report or compare", command);
}

}  // namespace

int run_profile(int argc, const char* const* argv, std::ostream& out, std::ostream& err) {
    const std::string_view first = argc > 1 ? argv[1] : "";
    const auto* found = std::find_if(std::begin(kCommands), std::end(kCommands),
                                     [&](const Command& command) { return command.name == first; });
    const bool named = found != std::end(kCommands);
    const Call call{named ? fmt::format("{} {}", kProgram, first) : kProgram, named ? argc - 1 : argc,
                    named ? argv + 1 : argv, out, err};
    return static_cast<int>(run_guarded(call.program, err, [&] { return named ? found->run(call) : answer(call); }));
}

}  // namespace oomb::profiler
