#pragma once
// What somebody who typed a word that there is not probably meant.

#include <string>
#include <string_view>
#include <vector>

namespace oomb {

// Changes of one letter (another one, one more, one less, two neighbours swapped) that lead from one word to the other.
int letters_between(std::string_view from, std::string_view to);

// Of `known` the word that `typed` begins, or that is nearest to it: at most a third of its letters away, upper and
// lower case alike. Of equals the first; empty where none is near.
std::string nearest(std::string_view typed, const std::vector<std::string>& known);

// "; did you mean host?", or nothing: goes behind what was found in a message.
std::string did_you_mean(std::string_view typed, const std::vector<std::string>& known);

}  // namespace oomb
