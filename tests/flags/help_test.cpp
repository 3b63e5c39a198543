#include "runtime/flags/help.hpp"

#include <doctest/doctest.h>

#include <sstream>

#include "runtime/flags/command_line.hpp"
#include "runtime/flags/run_flags.hpp"

namespace oomb {

namespace {

struct Program {
    Program() {
        prepare_command_line(app, "the footer\n");
        add_run_flags(app, flags);
    }
    CLI::App app{"What it is for.", "program"};
    RunFlags flags;
};

}  // namespace

TEST_CASE("every flag is in the help with a description, and every default") {
    Program program;
    const std::string text = help_text(program.app);
    for (const CLI::Option* option : program.app.get_options()) {
        CAPTURE(option->get_name());
        CHECK(text.find("\n  " + option->get_name()) != std::string::npos);
        CHECK(option->get_description().size() > 10);
        const bool is_switch = option->get_items_expected_max() == 0;
        CHECK((is_switch || option->get_required() || !option->get_default_str().empty()));
    }
    CHECK(text.find("(default: 16K)") != std::string::npos);
    CHECK(text.starts_with("usage: program --model DIR_OR_CONFIG --context TOKENS [flags]\n\nWhat it is for.\n"));
    CHECK(text.ends_with("the footer\n"));
}

TEST_CASE("no line of the help is wider than 110 columns") {
    Program program;
    std::istringstream lines(help_text(program.app));
    for (std::string line; std::getline(lines, line);) {
        CHECK(line.size() <= 110);
        CHECK_FALSE(line.ends_with(' '));
    }
}

TEST_CASE("an exception becomes one line and an exit code") {
    std::ostringstream err;
    CHECK(run_guarded("program", err, [] { return ExitCode::kDoesNotFit; }) == ExitCode::kDoesNotFit);
    CHECK(err.str().empty());
    CHECK(run_guarded("program", err, []() -> ExitCode { throw DoesNotFitError("too large"); }) ==
          ExitCode::kDoesNotFit);
    CHECK(run_guarded("program", err, []() -> ExitCode { throw UsageError("--x: wrong"); }) == ExitCode::kWrongUsage);
    CHECK(run_guarded("program", err, []() -> ExitCode { throw FileError("f: damaged"); }) == ExitCode::kFailed);
    CHECK(run_guarded("program", err, []() -> ExitCode { throw std::bad_alloc(); }) == ExitCode::kFailed);
    CHECK(run_guarded("program", err, []() -> ExitCode { throw std::runtime_error("other"); }) == ExitCode::kFailed);
    CHECK(err.str() ==
          "program: too large\nprogram: --x: wrong; program --help lists the flags\nprogram: f: damaged\n"
          "program: the system gave no more memory\nprogram: other\n");
}

}  // namespace oomb
