#pragma once
// What an error says, for tests of messages.

#include <doctest/doctest.h>

#include <initializer_list>
#include <string>
#include <string_view>

namespace oomb::test {

// The message of the E that `action` throws; fails the test when it throws none or another type.
template <class E, class Action>
std::string message_of(Action&& action) {
    try {
        action();
    } catch (const E& error) {
        return error.what();
    } catch (const std::exception& error) {
        FAIL_CHECK("another type of error: " << error.what());
        return {};
    }
    FAIL_CHECK("no error");
    return {};
}

inline void check_contains(const std::string& message, std::initializer_list<std::string_view> fragments) {
    for (const std::string_view fragment : fragments) {
        CAPTURE(message);
        CAPTURE(fragment);
        CHECK(message.find(fragment) != std::string::npos);
    }
}

}  // namespace oomb::test
