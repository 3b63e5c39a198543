#include "runtime/flags/command_line.hpp"

#include <new>

#include "runtime/core/version.hpp"
#include "runtime/flags/command_words.hpp"
#include "runtime/flags/help.hpp"

namespace oomb {
namespace {

void print_usage_fault(const std::string& program, const std::string& message, std::ostream& err) {
    err << fmt::format("{}: {}{} {} --help lists the flags\n", program, message, message.ends_with('?') ? "" : ";",
                       program);
}

}  // namespace

void prepare_command_line(CLI::App& app, const std::string& footer) {
    const std::string program = app.get_name();
    app.set_help_flag("--help", "print this and stop")->group("Other");
    app.set_version_flag(
           "--version", [program] { return version_text(program); }, "print version, commit, CUDA, LibTorch and stop")
        ->group("Other");
    app.footer(footer);
    app.formatter_fn([](const CLI::App* of, const std::string&, CLI::AppFormatMode) { return help_text(*of); });
}

std::optional<ExitCode> parse_command_line(CLI::App& app, int argc, const char* const* argv, std::ostream& out,
                                           std::ostream& err) {
    if (const auto fault = fault_in_words(app, argc, argv)) {
        print_usage_fault(app.get_name(), *fault, err);
        return ExitCode::kWrongUsage;
    }
    try {
        app.parse(argc, argv);
    } catch (const CLI::CallForHelp&) {
        out << app.help();
        return ExitCode::kDone;
    } catch (const CLI::CallForVersion& version) {
        out << version.what();
        return ExitCode::kDone;
    } catch (const CLI::ParseError& fault) {
        print_usage_fault(app.get_name(), fault.what(), err);
        return ExitCode::kWrongUsage;
    }
    return std::nullopt;
}

ExitCode run_guarded(const std::string& program, std::ostream& err, const std::function<ExitCode()>& body) {
    try {
        return body();
    } catch (const UsageError& error) {
        print_usage_fault(program, error.what(), err);
        return error.exit_code();
    } catch (const Error& error) {
        err << fmt::format("{}: {}\n", program, error.what());
        return error.exit_code();
    } catch (const std::bad_alloc&) {
        err << fmt::format("{}: the system gave no more memory\n", program);
    } catch (const std::exception& error) {
        err << fmt::format("{}: {}\n", program, error.what());
    }
    return ExitCode::kFailed;
}

}  // namespace oomb
