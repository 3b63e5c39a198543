#include "runtime/core/nearest.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace oomb {
namespace {

std::string lower_case(std::string_view text) {
    std::string lower(text);
    std::ranges::transform(lower, lower.begin(), [](char c) { return c >= 'A' && c <= 'Z' ? c - 'A' + 'a' : c; });
    return lower;
}

}  // namespace

int letters_between(std::string_view from, std::string_view to) {
    // Row i: from the first i letters to every beginning of `to`.
    std::vector<std::vector<int>> least(from.size() + 1, std::vector<int>(to.size() + 1));
    for (std::size_t i = 0; i <= from.size(); ++i) {
        for (std::size_t j = 0; j <= to.size(); ++j) {
            if (i == 0 || j == 0) {
                least[i][j] = static_cast<int>(i + j);
                continue;
            }
            const int replaced = least[i - 1][j - 1] + (from[i - 1] == to[j - 1] ? 0 : 1);
            least[i][j] = std::min({replaced, least[i - 1][j] + 1, least[i][j - 1] + 1});
            if (i > 1 && j > 1 && from[i - 1] == to[j - 2] && from[i - 2] == to[j - 1]) {
                least[i][j] = std::min(least[i][j], least[i - 2][j - 2] + 1);
            }
        }
    }
    return least[from.size()][to.size()];
}

std::string nearest(std::string_view typed, const std::vector<std::string>& known) {
    constexpr std::size_t kMostLetters = 64;  // what is longer was no slip of a finger
    if (typed.empty() || typed.size() > kMostLetters) {
        return "";
    }
    const std::string word = lower_case(typed);
    for (const std::string& name : known) {
        if (lower_case(name).starts_with(word)) {
            return name;
        }
    }
    std::string found;
    int least = static_cast<int>(std::max<std::size_t>(1, word.size() / 3)) + 1;
    for (const std::string& name : known) {
        const int letters = letters_between(word, lower_case(name));
        if (letters < least && letters < static_cast<int>(name.size())) {
            least = letters;
            found = name;
        }
    }
    return found;
}

std::string did_you_mean(std::string_view typed, const std::vector<std::string>& known) {
    const std::string name = nearest(typed, known);
    return name.empty() ? "" : fmt::format("; did you mean {}?", name);
}

}  // namespace oomb
