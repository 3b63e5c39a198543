#include "runtime/flags/command_words.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <map>
#include <vector>

#include "runtime/core/nearest.hpp"

namespace oomb {
namespace {

template <class T>
bool is_number(const std::string& word) {
    T value{};
    const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), value);
    return error == std::errc{} && end == word.data() + word.size();
}

// The library takes 10^30 for the largest number there is.
std::optional<std::string> fault_of_number(const CLI::Option& option, const std::string& value) {
    const std::string type = option.get_type_name();
    const bool is_negative = value.starts_with('-');
    if ((type == "N" && (is_negative || !is_number<std::int64_t>(value))) ||
        (type == "X" && !is_number<double>(value))) {
        return fmt::format(
            "{}: found \"{}\", allowed is a {}", option.get_name(), value,
            type == "N" ? "whole number from 0 that 64 bits hold, such as 100" : "number, such as 0.001 or 1e-5");
    }
    return std::nullopt;
}

class Words {
  public:
    Words(const CLI::App& app, int argc, const char* const* argv) : app_(app) {
        for (int i = 1; i < argc; ++i) {
            words_.emplace_back(argv[i]);
        }
        for (const CLI::Option* option : app.get_options()) {
            if (option->get_positional()) {
                positionals_.push_back({option, option->get_items_expected_max()});
            } else {
                names_.push_back(option->get_name());
            }
        }
    }

    std::optional<std::string> fault() {
        while (at_ < words_.size()) {
            if (!only_positionals_ && (words_[at_] == "--help" || words_[at_] == "--version")) {
                return std::nullopt;
            }
            if (ends_flags(words_[at_])) {
                only_positionals_ = true;
                ++at_;
            } else if (auto text = fault_of_next()) {
                return text;
            }
        }
        for (const CLI::Option* option : app_.get_options()) {
            if (option->get_required() && !given_.contains(option->get_name())) {
                return option->get_positional()
                           ? fmt::format("{} is required: {}", option->get_name(), option->get_description())
                           : fmt::format("{} is required: {} {}", option->get_name(), option->get_name(),
                                         option->get_type_name());
            }
        }
        return std::nullopt;
    }

  private:
    struct Positional {
        const CLI::Option* option;
        int room;  // words that it still takes
    };

    bool ends_flags(const std::string& word) const {
        return word == "--" && !positionals_.empty() && !only_positionals_;
    }

    // Whether a positional argument has room for the word; the first that has gets it, as the library gives them out.
    bool takes(const std::string& word) {
        const auto free = std::find_if(positionals_.begin(), positionals_.end(),
                                       [](const Positional& positional) { return positional.room > 0; });
        if (free == positionals_.end()) {
            return false;
        }
        --free->room;
        given_.emplace(free->option->get_name(), word);
        return true;
    }

    const CLI::Option* find(const std::string& name) const {
        const bool is_known = std::find(names_.begin(), names_.end(), name) != names_.end();
        return is_known ? app_.get_option(name) : nullptr;
    }

    // Goes on to the word behind the flag and its value.
    std::optional<std::string> fault_of_next() {
        const std::string& word = words_[at_++];
        if ((only_positionals_ || !word.starts_with('-')) && takes(word)) {
            return std::nullopt;
        }
        if (only_positionals_) {
            return belongs_to_nothing(word);
        }
        const std::size_t equals = word.find('=');
        const std::string name = word.substr(0, equals);
        const CLI::Option* option = find(name);
        if (option == nullptr) {
            return unknown(name);
        }
        if (option->get_items_expected_max() == 0) {
            return equals == std::string::npos ? again(name, "")
                                               : fmt::format(
                                                     "{} takes no value, found \"{}\"; leave \"{}\" out, or "
                                                     "the flag itself",
                                                     name, word.substr(equals + 1), word.substr(equals));
        }
        if (equals == std::string::npos &&
            (at_ == words_.size() || find(words_[at_]) != nullptr || ends_flags(words_[at_]))) {
            return lacks_value(*option, at_ == words_.size() ? "nothing follows" : words_[at_] + " follows");
        }
        const std::string value = equals == std::string::npos ? words_[at_++] : word.substr(equals + 1);
        if (value.empty()) {
            return lacks_value(*option, "found \"\"");
        }
        if (const auto fault = fault_of_number(*option, value)) {
            return fault;
        }
        // A list goes on to the next flag.
        while (option->get_items_expected_max() > 1 && at_ < words_.size() && !words_[at_].starts_with('-')) {
            if (words_[at_++].empty()) {
                return lacks_value(*option, "found \"\"");
            }
        }
        return again(name, value);
    }

    std::optional<std::string> again(const std::string& name, const std::string& value) {
        const auto [before, is_new] = given_.emplace(name, value);
        if (is_new) {
            return std::nullopt;
        }
        return value.empty() ? fmt::format("{} is given twice; give it once", name)
                             : fmt::format("{} is given twice, found \"{}\" and \"{}\"; give it once", name,
                                           before->second, value);
    }

    std::string unknown(const std::string& name) const {
        if (!name.starts_with('-')) {
            return belongs_to_nothing(name);
        }
        const std::size_t dashes = std::min(name.find_first_not_of('-'), name.size());
        return fmt::format(
            "{} is no flag of {}{}", name, app_.get_name(),
            did_you_mean("--" + name.substr(dashes), dashes < name.size() ? names_ : std::vector<std::string>{}));
    }

    static std::string belongs_to_nothing(const std::string& word) {
        return fmt::format(
            "found \"{}\", which belongs to no flag; a value follows its flag, and one with spaces goes in quotes",
            word);
    }

    static std::string lacks_value(const CLI::Option& option, const std::string& found) {
        return fmt::format("{} needs a value, {}; give it as {} {}{}", option.get_name(), found, option.get_name(),
                           option.get_type_name(), option.get_required() ? "" : ", or leave the flag out");
    }

    const CLI::App& app_;
    std::vector<std::string> words_;
    std::vector<std::string> names_;  // of flags
    std::vector<Positional> positionals_;
    bool only_positionals_ = false;  // behind "--"
    std::size_t at_ = 0;
    std::map<std::string, std::string> given_;  // flags with their values so far
};

}  // namespace

std::optional<std::string> fault_in_words(const CLI::App& app, int argc, const char* const* argv) {
    return Words(app, argc, argv).fault();
}

}  // namespace oomb
