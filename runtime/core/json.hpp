#pragma once
// JSON from files that are not trusted: limits on size and depth, no duplicate keys, and messages that name the file
// and the place in it.

#include <cstdint>
#include <filesystem>
#include <limits>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "runtime/core/text_file.hpp"

namespace oomb {

using Json = nlohmann::json;

struct JsonLimits {
    std::int64_t max_bytes = std::int64_t{16} << 20;
    int max_depth = 64;  // of nested arrays and objects
};

// Throw FileError: "<name>: <what> at line 3, column 7". A key that occurs twice in one object is an error.
Json parse_json(std::string_view text, const std::string& name, const JsonLimits& limits = {});
Json read_json_file(const std::filesystem::path& path, const JsonLimits& limits = {});

// A value as it is quoted in messages: compact JSON, shortened.
std::string quoted(const Json& value);

// A value and where it stands, for reading typed fields. Refers to the document, which must outlive it. Every error is
// a FileError: `config.json: rope_parameters.factor: found "x", expected a number of at least 1`.
class JsonNode {
  public:
    JsonNode(const Json& value, std::string file) : value_(&value), file_(std::move(file)) {}
    JsonNode(Json&&, std::string) = delete;

    const Json& value() const { return *value_; }
    const std::string& file() const { return file_; }
    std::string place() const;                // "config.json: rope_parameters.factor"
    bool has(std::string_view key) const;     // an object with this key, and the value is not null
    JsonNode at(std::string_view key) const;  // error when the key is absent
    JsonNode item(std::size_t index) const;   // of an array
    std::size_t size() const;                 // of an array

    std::int64_t as_integer(std::int64_t min = 1, std::int64_t max = std::numeric_limits<std::int64_t>::max()) const;
    double as_number(double min = std::numeric_limits<double>::lowest(),
                     double max = std::numeric_limits<double>::max()) const;
    bool as_bool() const;
    std::string as_string() const;
    const JsonNode& as_object() const;  // itself; error when it is no object
    const JsonNode& as_array() const;

    // The same with a value for an absent or null key.
    std::int64_t integer_or(std::string_view key, std::int64_t fallback, std::int64_t min = 1,
                            std::int64_t max = std::numeric_limits<std::int64_t>::max()) const;
    double number_or(std::string_view key, double fallback, double min = std::numeric_limits<double>::lowest(),
                     double max = std::numeric_limits<double>::max()) const;
    bool bool_or(std::string_view key, bool fallback) const;
    std::string string_or(std::string_view key, std::string_view fallback) const;

    [[noreturn]] void refuse(std::string_view expected) const;

  private:
    JsonNode child(const Json& value, const std::string& step) const;

    const Json* value_;
    std::string file_;
    std::string path_;
};

}  // namespace oomb
