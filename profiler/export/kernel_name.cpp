#include "profiler/export/kernel_name.hpp"

namespace oomb::profiler {
namespace {

constexpr std::string_view kUnnamedSpace = "(anonymous namespace)";

// Walks through a text and knows the brackets that are open. Of "(a > b)" the ">" closes nothing.
class Brackets {
  public:
    bool inside() const { return !open_.empty(); }
    void take(char c) {
        if (c == '(' || c == '<' || c == '{' || c == '[') {
            open_ += c;
        } else if (c == '>') {
            if (inside() && open_.back() == '<') {
                open_.pop_back();
            }
        } else if (c == ')' || c == '}' || c == ']') {
            const char opening = c == ')' ? '(' : c == '}' ? '{' : '[';
            const std::size_t found = open_.rfind(opening);
            open_.resize(found == std::string::npos ? open_.size() : found);
        }
    }

  private:
    std::string open_;
};

}  // namespace

std::string short_kernel_name(std::string_view demangled) {
    Brackets brackets;
    std::size_t begin = 0, end = std::string_view::npos;  // of the name: it ends where its first bracket opens
    for (std::size_t i = 0; i < demangled.size(); ++i) {
        const char c = demangled[i];
        if (!brackets.inside()) {
            if (demangled.substr(i).starts_with(kUnnamedSpace)) {
                i += kUnnamedSpace.size() - 1;
                continue;
            }
            if (c == ' ' || c == ':') {
                begin = i + 1;
                end = std::string_view::npos;
            } else if ((c == '<' || c == '(') && end == std::string_view::npos) {
                end = i;
            }
            if (c == '(' && end > begin) {  // the parameters
                return std::string(demangled.substr(begin, end - begin));
            }
        }
        brackets.take(c);
    }
    return std::string(demangled);
}

}  // namespace oomb::profiler
