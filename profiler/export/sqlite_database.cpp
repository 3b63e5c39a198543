#include "profiler/export/sqlite_database.hpp"

#include <unistd.h>

#include <cstring>
#include <system_error>
#include <utility>

#include "runtime/core/error.hpp"

namespace oomb::profiler {
namespace {

std::filesystem::path name_beside(const std::filesystem::path& path) {
    const std::filesystem::path folder = path.has_parent_path() ? path.parent_path() : ".";
    return folder / fmt::format(".{}.{}.tmp", path.filename().string(), ::getpid());
}

}  // namespace

SqliteDatabase::SqliteDatabase(std::filesystem::path path) : path_(std::move(path)), beside_(name_beside(path_)) {
    std::error_code ignored;
    std::filesystem::remove(beside_, ignored);  // of a killed process with our number
    const int flags = SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE | SQLITE_OPEN_NOFOLLOW;
    try {
        check(sqlite3_open_v2(beside_.c_str(), &handle_, flags, nullptr));
        // What is half-written is never read, so there is nothing to roll back. The end of the transaction syncs.
        execute("PRAGMA journal_mode = OFF; PRAGMA locking_mode = EXCLUSIVE; BEGIN");
    } catch (...) {
        sqlite3_close_v2(handle_);
        std::filesystem::remove(beside_, ignored);
        throw;
    }
}

SqliteDatabase::~SqliteDatabase() {
    if (handle_ != nullptr) {
        sqlite3_close_v2(handle_);
        std::error_code ignored;
        std::filesystem::remove(beside_, ignored);
    }
}

void SqliteDatabase::execute(const char* sql) {
    check(sqlite3_exec(handle_, sql, nullptr, nullptr, nullptr));
}

void SqliteDatabase::finish() {
    execute("COMMIT");
    check(sqlite3_close(handle_));
    handle_ = nullptr;
    std::error_code error;
    if (std::filesystem::exists(path_, error)) {
        error = std::make_error_code(std::errc::file_exists);
    } else {
        std::filesystem::rename(beside_, path_, error);
    }
    if (error) {
        std::error_code ignored;
        std::filesystem::remove(beside_, ignored);
        fail<FileError>("{}: cannot be written: {}", path_.string(), error.message());
    }
}

void SqliteDatabase::check(int code) {
    if (code == SQLITE_OK || code == SQLITE_DONE || code == SQLITE_ROW) {
        return;
    }
    const int system = sqlite3_system_errno(handle_);
    fail<FileError>("{}: cannot be written: {}{}", path_.string(),
                    handle_ != nullptr ? sqlite3_errmsg(handle_) : sqlite3_errstr(code),
                    system != 0 ? fmt::format(" ({})", std::strerror(system)) : "");
}

SqliteInsert::SqliteInsert(SqliteDatabase& database, std::string_view sql) : database_(database) {
    database_.check(
        sqlite3_prepare_v2(database_.handle_, sql.data(), static_cast<int>(sql.size()), &statement_, nullptr));
}

SqliteInsert::~SqliteInsert() {
    sqlite3_finalize(statement_);
}

void SqliteInsert::bind_text(int index, std::string_view text) {
    database_.check(sqlite3_bind_text64(statement_, index, text.data(), text.size(), SQLITE_STATIC, SQLITE_UTF8));
}

void SqliteInsert::step() {
    database_.check(sqlite3_step(statement_));
    database_.check(sqlite3_reset(statement_));
}

}  // namespace oomb::profiler
