#include "runtime/core/json.hpp"

#include <doctest/doctest.h>
#include <sys/stat.h>

#include <fstream>

#include "runtime/core/error.hpp"
#include "tests/core/messages.hpp"
#include "tests/core/scratch_folder.hpp"

namespace oomb {
using test::check_contains;
using test::message_of;

namespace {

std::string parse_error(std::string_view text, const JsonLimits& limits = {}) {
    return message_of<FileError>([&] { parse_json(text, "plan.json", limits); });
}

}  // namespace

TEST_CASE("damaged JSON is refused with its place") {
    check_contains(parse_error("{\n  \"a\": 1,\n}"), {"plan.json", "not valid JSON", "line 3, column 1"});
    for (const std::string_view text : {"", "{", "[1,", "{\"a\" 1}", "{\"a\": NaN}", "{\"a\": 1} x", "\"\xff\"",
                                        "\"\\ud800\"", "{\"a\": 01}", "nul"}) {
        CAPTURE(text);
        check_contains(parse_error(text), {"plan.json", "not valid JSON", "line 1"});
    }
    check_contains(parse_error("{\"a\": 1e999}"), {"plan.json", "not valid JSON", "1e999"});
}

TEST_CASE("a duplicate key is refused in any object") {
    check_contains(parse_error(R"({"a": 1, "b": {"c": 1, "d": [], "c": 2}})"), {"plan.json", "\"c\"", "twice"});
    check_contains(parse_error(R"({"a": {"x": 1}, "a": 2})"), {"\"a\"", "twice"});
    CHECK(parse_json(R"({"a": {"x": 1}, "b": {"x": 1}, "x": [{"x": 1}, {"x": 2}]})", "plan.json").size() == 3);
}

TEST_CASE("a hostile depth is refused before it can exhaust the stack") {
    check_contains(parse_error(std::string(1'000'000, '[')), {"plan.json", "nested more than 64 deep"});
    std::string objects;
    for (int i = 0; i < 100'000; ++i) {
        objects += "{\"a\":";
    }
    check_contains(parse_error(objects), {"nested more than 64 deep"});
    const std::string deepest = std::string(64, '[') + std::string(64, ']');
    CHECK(parse_json(deepest, "plan.json").is_array());
    check_contains(parse_error("[" + deepest + "]"), {"nested more than 64 deep"});
}

TEST_CASE("a text above the limit is refused") {
    check_contains(parse_error("[1, 2, 3]", {.max_bytes = 8}), {"plan.json", "9 bytes", "8 bytes"});
    const test::ScratchFolder folder;
    const auto path = folder.write("big.json", "[1, 2, 3]");
    CHECK(read_json_file(path, {.max_bytes = 9}).size() == 3);
    check_contains(message_of<FileError>([&] { read_json_file(path, {.max_bytes = 8}); }), {"big.json", "8 bytes"});
}

TEST_CASE("a typed field says where it stands, what it holds and what is allowed") {
    const Json document = parse_json(
        R"({"n": "x", "half": 0.5, "big": 18446744073709551615, "neg": -3, "list": [1, {"k": true}], "none": null, "s": "t"})",
        "config.json");
    const JsonNode root(document, "config.json");
    const auto refusal = [](auto&& action) { return message_of<FileError>(action); };
    CHECK(refusal([&] { root.at("n").as_integer(); }) == "config.json: n: found \"x\", expected a positive integer");
    check_contains(refusal([&] { root.at("half").as_integer(); }), {"half: found 0.5", "positive integer"});
    check_contains(refusal([&] { root.at("big").as_integer(); }), {"found 18446744073709551615"});
    check_contains(refusal([&] { root.at("neg").as_integer(1, 4096); }),
                   {"found -3", "a positive integer up to 4,096"});
    check_contains(refusal([&] { root.at("list").item(1).at("k").as_number(0, 1); }),
                   {"config.json: list[1].k: found true", "a number from 0 to 1"});
    check_contains(refusal([&] { root.at("list").item(2); }), {"list", "2 items"});
    check_contains(refusal([&] { root.at("absent"); }), {"config.json: absent: missing"});
    check_contains(refusal([&] { root.at("none").as_bool(); }), {"none: found null", "true or false"});
    check_contains(refusal([&] { root.at("n").at("deeper"); }), {"n: found \"x\", expected an object"});
    check_contains(refusal([&] { root.at("s").size(); }), {"expected an array"});
    check_contains(refusal([&] { root.at("half").as_string(); }), {"expected a string"});
    CHECK(root.at("neg").as_integer(-3) == -3);
    CHECK(root.at("half").as_number(0.5, 0.5) == 0.5);
    CHECK(root.integer_or("none", 7) == 7);
    CHECK(root.string_or("s", "u") == "t");
    CHECK_FALSE(root.has("none"));
    CHECK_FALSE(root.at("s").has("x"));
}

TEST_CASE("a long value is shortened in messages") {
    CHECK(quoted(Json(std::string(100'000, 'a'))).size() < 100);
    CHECK(quoted(Json(std::vector<int>(1000, 1))) == "an array of 1000 entries");
    CHECK(quoted(Json("caf\xc3\xa9\n")) == "\"caf\\u00e9\\n\"");
}

TEST_CASE("a text file replaces the old one whole, or not at all") {
    const test::ScratchFolder folder;
    const auto path = folder.write("out.json", "old");
    write_text_file(path, "new\n");
    CHECK(read_text_file(path, 100) == "new\n");
    // A folder in the way of the rename: the write fails and leaves nothing beside.
    std::filesystem::create_directories(folder.path() / "taken" / "full");
    check_contains(message_of<FileError>([&] { write_text_file(folder.path() / "taken", "x"); }),
                   {"taken", "replaced"});
    for (const auto& entry : std::filesystem::directory_iterator(folder.path())) {
        CAPTURE(entry.path());
        CHECK(entry.path().extension() != ".tmp");
    }
    check_contains(message_of<FileError>([&] { write_text_file(folder.path() / "no" / "where", "x"); }),
                   {"where", "created"});
}

TEST_CASE("an unreadable file says why") {
    const test::ScratchFolder folder;
    check_contains(message_of<FileError>([&] { read_text_file(folder.path() / "none", 10); }),
                   {"none", "No such file"});
    check_contains(message_of<FileError>([&] { read_text_file(folder.path(), 10); }), {"directory"});
    const auto path = folder.write("large", std::string(200'000, 'x'));
    CHECK(read_text_file(path, 200'000).size() == 200'000);
    CHECK_THROWS_AS(read_text_file(path, 199'999), FileError);
}

}  // namespace oomb
