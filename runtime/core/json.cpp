#include "runtime/core/json.hpp"

#include <cmath>
#include <set>
#include <vector>

#include "runtime/core/error.hpp"
#include "runtime/core/units.hpp"

namespace oomb {

namespace {

constexpr std::size_t kMaxQuotedBytes = 80;

// Refuses deep nesting and duplicate keys while the document is being read.
class StructureCheck {
  public:
    StructureCheck(const std::string& name, int max_depth) : name_(name), max_depth_(max_depth) {}

    void operator()(Json::parse_event_t event, const Json& parsed) {
        switch (event) {
            case Json::parse_event_t::object_start:
            case Json::parse_event_t::array_start:
                enter();
                break;
            case Json::parse_event_t::object_end:
            case Json::parse_event_t::array_end:
                open_.pop_back();
                break;
            case Json::parse_event_t::key:
                if (!open_.back().insert(parsed.get<std::string>()).second) {
                    fail<FileError>("{}: the key {} occurs twice in one object; keep one of them", name_,
                                    quoted(parsed));
                }
                break;
            case Json::parse_event_t::value:
                break;
        }
    }

  private:
    void enter() {
        if (static_cast<int>(open_.size()) >= max_depth_) {
            fail<FileError>("{}: arrays and objects are nested more than {} deep, the most that is read", name_,
                            max_depth_);
        }
        open_.emplace_back();
    }

    const std::string& name_;
    int max_depth_;
    std::vector<std::set<std::string>> open_;
};

// "[json.exception.parse_error.101] parse error at line 1, column 2: …" without the library's own prefix.
std::string_view reason(const Json::exception& error) {
    const std::string_view text = error.what();
    const std::size_t end = text.find("] ");
    return end == std::string_view::npos ? text : text.substr(end + 2);
}

bool has_bounds(double min, double max) {
    return min > std::numeric_limits<double>::lowest() || max < std::numeric_limits<double>::max();
}

}  // namespace

Json parse_json(std::string_view text, const std::string& name, const JsonLimits& limits) {
    if (static_cast<std::int64_t>(text.size()) > limits.max_bytes) {
        fail<FileError>("{}: holds {}, at most {} are read", name, format_bytes(static_cast<std::int64_t>(text.size())),
                        format_bytes(limits.max_bytes));
    }
    StructureCheck check(name, limits.max_depth);
    try {
        return Json::parse(text.begin(), text.end(), [&check](int, Json::parse_event_t event, const Json& parsed) {
            check(event, parsed);
            return true;
        });
    } catch (const Json::exception& error) {
        fail<FileError>("{}: not valid JSON: {}", name, reason(error));
    }
}

Json read_json_file(const std::filesystem::path& path, const JsonLimits& limits) {
    return parse_json(read_text_file(path, limits.max_bytes), path.string(), limits);
}

std::string quoted(const Json& value) {
    if (value.is_structured() && value.size() > kMaxQuotedBytes) {
        return fmt::format("{} of {} entries", value.is_array() ? "an array" : "an object", value.size());
    }
    const std::string text = value.dump(-1, ' ', true, Json::error_handler_t::replace);
    return text.size() <= kMaxQuotedBytes ? text : text.substr(0, kMaxQuotedBytes) + "...";
}

std::string JsonNode::place() const {
    return path_.empty() ? file_ : fmt::format("{}: {}", file_, path_);
}

JsonNode JsonNode::child(const Json& value, const std::string& step) const {
    JsonNode result(value, file_);
    result.path_ = path_ + step;
    return result;
}

bool JsonNode::has(std::string_view key) const {
    if (!value_->is_object()) {
        return false;
    }
    const auto found = value_->find(key);
    return found != value_->end() && !found->is_null();
}

JsonNode JsonNode::at(std::string_view key) const {
    as_object();
    const std::string step = path_.empty() ? std::string(key) : fmt::format(".{}", key);
    const auto found = value_->find(key);
    if (found == value_->end()) {
        fail<FileError>("{}: {}{}: missing, and it is required", file_, path_, step);
    }
    return child(*found, step);
}

JsonNode JsonNode::item(std::size_t index) const {
    if (index >= size()) {
        fail<FileError>("{}: has {} items, item {} is required", place(), size(), index);
    }
    return child((*value_)[index], fmt::format("[{}]", index));
}

std::size_t JsonNode::size() const {
    return as_array().value().size();
}

std::int64_t JsonNode::as_integer(std::int64_t min, std::int64_t max) const {
    const bool fits =
        value_->is_number_unsigned()
            ? value_->get<std::uint64_t>() <= static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max())
            : value_->is_number_integer();
    if (fits) {
        const auto number = value_->get<std::int64_t>();
        if (number >= min && number <= max) {
            return number;
        }
    }
    const bool is_open = max == std::numeric_limits<std::int64_t>::max();
    const std::string kind =
        min == 1 ? "a positive integer" : fmt::format("an integer of at least {}", format_count(min));
    refuse(is_open ? kind : fmt::format("{} up to {}", kind, format_count(max)));
}

double JsonNode::as_number(double min, double max) const {
    if (value_->is_number()) {
        const auto number = value_->get<double>();
        if (std::isfinite(number) && number >= min && number <= max) {
            return number;
        }
    }
    refuse(has_bounds(min, max) ? fmt::format("a number from {} to {}", min, max) : std::string("a number"));
}

bool JsonNode::as_bool() const {
    if (!value_->is_boolean()) {
        refuse("true or false");
    }
    return value_->get<bool>();
}

std::string JsonNode::as_string() const {
    if (!value_->is_string()) {
        refuse("a string");
    }
    return value_->get<std::string>();
}

const JsonNode& JsonNode::as_object() const {
    if (!value_->is_object()) {
        refuse("an object");
    }
    return *this;
}

const JsonNode& JsonNode::as_array() const {
    if (!value_->is_array()) {
        refuse("an array");
    }
    return *this;
}

std::int64_t JsonNode::integer_or(std::string_view key, std::int64_t fallback, std::int64_t min,
                                  std::int64_t max) const {
    return has(key) ? at(key).as_integer(min, max) : fallback;
}

double JsonNode::number_or(std::string_view key, double fallback, double min, double max) const {
    return has(key) ? at(key).as_number(min, max) : fallback;
}

bool JsonNode::bool_or(std::string_view key, bool fallback) const {
    return has(key) ? at(key).as_bool() : fallback;
}

std::string JsonNode::string_or(std::string_view key, std::string_view fallback) const {
    return has(key) ? at(key).as_string() : std::string(fallback);
}

void JsonNode::refuse(std::string_view expected) const {
    fail<FileError>("{}: found {}, expected {}", place(), quoted(*value_), expected);
}

}  // namespace oomb
