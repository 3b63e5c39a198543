#pragma once
// SQLite3 as far as an export needs it: a new database that is filled once, in one transaction.

#include <sqlite3.h>

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>

namespace oomb::profiler {

// Rows go to a file beside `path`, which takes its name in `finish`; without `finish` nothing is left. Every error, a
// full disk too, is a FileError that names `path`.
class SqliteDatabase {
  public:
    explicit SqliteDatabase(std::filesystem::path path);
    SqliteDatabase(const SqliteDatabase&) = delete;
    SqliteDatabase& operator=(const SqliteDatabase&) = delete;
    ~SqliteDatabase();

    void execute(const char* sql);  // statements without results
    void finish();                  // every SqliteInsert must be gone; refuses a `path` that exists

  private:
    friend class SqliteInsert;
    void check(int code);

    std::filesystem::path path_, beside_;
    sqlite3* handle_ = nullptr;
};

// A prepared statement, carried out once per call with values for its parameters: numbers, enumerations, texts in
// UTF-8; an empty optional is NULL. A 64-bit pattern past 2^63 is stored as the negative number with the same bits.
class SqliteInsert {
  public:
    SqliteInsert(SqliteDatabase& database, std::string_view sql);
    SqliteInsert(const SqliteInsert&) = delete;
    SqliteInsert& operator=(const SqliteInsert&) = delete;
    ~SqliteInsert();

    template <class... Values>
    void operator()(const Values&... values) {
        int index = 0;
        (bind(++index, values), ...);
        step();
    }

  private:
    template <class V>
    void bind(int index, const V& value) {
        if constexpr (std::is_integral_v<V> || std::is_enum_v<V>) {
            database_.check(sqlite3_bind_int64(statement_, index, static_cast<sqlite3_int64>(value)));
        } else {
            bind_text(index, value);
        }
    }
    template <class V>
    void bind(int index, const std::optional<V>& value) {
        if (value) {
            bind(index, *value);
        } else {
            database_.check(sqlite3_bind_null(statement_, index));
        }
    }
    void bind_text(int index, std::string_view text);  // which must live until `step`
    void step();

    SqliteDatabase& database_;
    sqlite3_stmt* statement_ = nullptr;
};

}  // namespace oomb::profiler
