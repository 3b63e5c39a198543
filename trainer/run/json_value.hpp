#pragma once
// JSON as the run's files write it. Private to the room.

#include <nlohmann/json.hpp>
#include <optional>

namespace oomb::trainer {

using Json = nlohmann::ordered_json;

template <class T>
Json or_null(const std::optional<T>& value) {
    return value ? Json(*value) : Json(nullptr);
}

}  // namespace oomb::trainer
