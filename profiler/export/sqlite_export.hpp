#pragma once
// A profile as an SQLite database with the tables of Nsight Systems' export, so that queries written for those work.
// docs/profile-sqlite.md has what is in it.

#include <filesystem>

#include "profiler/analysis/profile.hpp"

namespace oomb::profiler {

// Throws FileError when there is such a file: a program asks before it begins.
void require_free(const std::filesystem::path& path);

// Throws FileError, and leaves no file, when `path` exists or cannot be written.
void export_sqlite(const Profile& profile, const std::filesystem::path& path);

}  // namespace oomb::profiler
