#include "runtime/flags/command_words.hpp"

#include <doctest/doctest.h>

#include <sstream>
#include <vector>

#include "runtime/flags/command_line.hpp"

namespace oomb {
namespace {

using Words = std::vector<std::string>;

// A program with a file or a command as its positional argument, or without one.
struct Program {
    enum class Takes { kNothing, kOne, kMany };
    explicit Program(Takes takes) {
        prepare_command_line(app, "");
        app.add_option("--out", out, "where to")->type_name("FILE");
        app.add_option("--rows", rows, "how many")->type_name("N");
        app.add_flag("--all", all, "everything");
        if (takes == Takes::kOne) {
            app.add_option("FILE", file, "what to read")->type_name("")->required();
        } else if (takes == Takes::kMany) {
            app.add_option("COMMAND", command, "what to run, after --")->type_name("")->required();
        }
    }

    // What is wrong; where nothing is, the library parses the same words.
    std::string parse(const Words& words) {
        std::vector<const char*> argv{"program"};
        for (const std::string& word : words) {
            argv.push_back(word.c_str());
        }
        std::ostringstream said, err;
        const int argc = static_cast<int>(argv.size());
        const bool ended = parse_command_line(app, argc, argv.data(), said, err).has_value();
        CHECK(ended == !err.str().empty());
        return err.str();
    }

    CLI::App app{"What it is for.", "program"};
    std::string out, file;
    std::int64_t rows = 0;
    bool all = false;
    Words command;
};

bool contains(const std::string& text, const std::string& part) {
    return text.find(part) != std::string::npos;
}

}  // namespace

TEST_CASE("behind -- all words are the command's") {
    Program program(Program::Takes::kMany);
    const Words command{"python", "x.py", "--out", "y", "-v", "--", "--help", "--rows=z", ""};
    Words words{"--all", "--out", "f", "--"};
    words.insert(words.end(), command.begin(), command.end());
    CHECK(program.parse(words).empty());
    CHECK(program.command == command);
    CHECK(program.out == "f");
    CHECK(program.all);
}

TEST_CASE("flags before -- are looked at as ever") {
    const auto fault = [](const Words& words) { return Program(Program::Takes::kMany).parse(words); };
    CHECK(contains(fault({"--uot", "f", "--", "true"}), "--uot is no flag of program; did you mean --out?"));
    CHECK(contains(fault({"--out", "--", "true"}), "--out needs a value, -- follows"));
    CHECK(contains(fault({"--rows", "-1", "--", "true"}), "--rows: found \"-1\""));
    CHECK(contains(fault({"--all", "--all", "--", "true"}), "--all is given twice"));
    CHECK(contains(fault({}), "COMMAND is required: what to run, after --"));
    CHECK(contains(fault({"--"}), "COMMAND is required"));
}

TEST_CASE("a word that no flag takes goes to the positional argument while it has room") {
    for (const Words& words : {Words{"a", "--rows", "3"}, Words{"--rows", "3", "a"}, Words{"--rows=3", "--", "a"}}) {
        Program program(Program::Takes::kOne);
        CHECK(program.parse(words).empty());
        CHECK(program.file == "a");
        CHECK(program.rows == 3);
    }
    Program dashed(Program::Takes::kOne);
    CHECK(dashed.parse({"--", "--all"}).empty());
    CHECK(dashed.file == "--all");
    const auto fault = [](const Words& words) { return Program(Program::Takes::kOne).parse(words); };
    CHECK(contains(fault({"a", "b"}), "found \"b\", which belongs to no flag"));
    CHECK(contains(fault({"a", "--", "-b"}), "found \"-b\", which belongs to no flag"));
    CHECK(contains(fault({"--all"}), "FILE is required: what to read"));
    CHECK(contains(fault({"-x"}), "-x is no flag of program"));
    CHECK(contains(fault({"FILE", "FILE"}), "found \"FILE\", which belongs to no flag"));
}

TEST_CASE("without positional arguments no word stands alone") {
    const auto fault = [](const Words& words) { return Program(Program::Takes::kNothing).parse(words); };
    CHECK(contains(fault({"--"}), "-- is no flag of program"));
    CHECK(contains(fault({"--out", "f", "--", "x"}), "-- is no flag of program"));
    CHECK(contains(fault({"stray"}), "found \"stray\", which belongs to no flag"));
    CHECK(fault({"--out", "--"}).empty());
}

}  // namespace oomb
