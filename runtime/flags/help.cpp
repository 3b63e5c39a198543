#include "runtime/flags/help.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <vector>

namespace oomb {
namespace {

constexpr std::size_t kTextColumn = 32;
constexpr std::size_t kWidth = 110;

// Appends the words of `text` at kTextColumn; the current line of `out` has `used` characters.
void append_wrapped(std::string& out, std::size_t used, const std::string& text) {
    const auto next_line = [&] {
        out += fmt::format("\n{:{}}", "", kTextColumn);
        used = kTextColumn;
    };
    if (used + 2 > kTextColumn) {
        next_line();
    } else {
        out.append(kTextColumn - used, ' ');
        used = kTextColumn;
    }
    for (std::size_t begin = 0; begin < text.size();) {
        const std::size_t end = std::min(text.find(' ', begin), text.size());
        const std::string word = text.substr(begin, end - begin);
        if (used > kTextColumn && used + 1 + word.size() > kWidth) {
            next_line();
        }
        const std::string gap = used > kTextColumn ? " " : "";
        out += gap + word;
        used += gap.size() + word.size();
        begin = end + 1;
    }
    out += '\n';
}

// Options that take no value have no type to show, whatever the library calls it.
std::string head_of(const CLI::Option& option) {
    const bool takes_value = option.get_items_expected_max() > 0;
    return option.get_name() + (takes_value ? " " + option.get_type_name() : "");
}

void append_option(std::string& out, const CLI::Option& option) {
    const std::string head = "  " + head_of(option);
    std::string text = option.get_description();
    if (option.get_required()) {
        text += " (required)";
    } else if (!option.get_default_str().empty()) {
        text += " (default: " + option.get_default_str() + ")";
    }
    out += head;
    append_wrapped(out, head.size(), text);
}

}  // namespace

std::string help_text(const CLI::App& app) {
    std::string out = "usage: " + app.get_name();
    const std::vector<const CLI::Option*> options = app.get_options();
    std::vector<std::string> groups;
    for (const CLI::Option* option : options) {
        if (option->get_required()) {
            out += " " + head_of(*option);
        }
        // --help and --version come first in the list and last in the text.
        if (std::find(groups.begin(), groups.end(), option->get_group()) == groups.end()) {
            groups.push_back(option->get_group());
        }
    }
    std::rotate(groups.begin(), groups.begin() + 1, groups.end());
    out += " [flags]\n\n" + app.get_description() + "\n";
    for (const std::string& group : groups) {
        out += "\n" + group + "\n";
        for (const CLI::Option* option : options) {
            if (option->get_group() == group) {
                append_option(out, *option);
            }
        }
    }
    return out + "\n" + app.get_footer();
}

}  // namespace oomb
