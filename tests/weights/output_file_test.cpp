#include "trainer/weights/output_file.hpp"

#include <doctest/doctest.h>

#include <cerrno>

#include "runtime/core/error.hpp"
#include "tests/weights/files.hpp"

namespace oomb::trainer {
namespace {

namespace fs = std::filesystem;

}  // namespace

TEST_CASE("short and interrupted writes are continued") {
    const TemporaryFolder folder;
    FileCalls calls = FileCalls::system();
    int count = 0;
    calls.write = [&](int fd, const void* data, std::size_t size) -> ssize_t {
        if (++count % 3 == 0) {
            errno = EINTR;
            return -1;
        }
        return ::write(fd, data, std::min<std::size_t>(size, 2));
    };
    OutputFile file(folder / "x", calls);
    file.write(std::string_view("hello, "));
    file.write(std::string_view("file"));
    file.close();
    CHECK(read_file(folder / "x") == "hello, file");
}

TEST_CASE("a failed write names the file, the bytes before it and the reason") {
    const TemporaryFolder folder;
    FileCalls calls = FileCalls::system();
    OutputFile file(folder / "x", calls);
    file.write(std::string_view("12345"));
    calls.write = [](int, const void*, std::size_t) -> ssize_t {
        errno = ENOSPC;
        return -1;
    };
    CHECK(mentions(message_of<FileError>([&] { file.write(std::string_view("6")); }), {"/x", "5 bytes", "No space"}));
    calls.write = [](int, const void*, std::size_t) -> ssize_t { return 0; };
    CHECK_THROWS_AS(file.write(std::string_view("6")), FileError);
    calls.sync = [](int) {
        errno = EIO;
        return -1;
    };
    CHECK(mentions(message_of<FileError>([&] { file.close(); }), {"/x", "flushed"}));
}

TEST_CASE("existing files and folders are never replaced") {
    const TemporaryFolder folder;
    const FileCalls calls = FileCalls::system();
    write_file(folder / "x", "old");
    CHECK_THROWS_AS(OutputFile(folder / "x", calls), FileError);
    CHECK(read_file(folder / "x") == "old");
    fs::create_directory(folder / "a");
    fs::create_directory(folder / "b");
    CHECK(mentions(message_of<FileError>([&] { rename_to_new(folder / "a", folder / "b"); }), {"/a", "/b", "exists"}));
    rename_to_new(folder / "a", folder / "c");
    CHECK(fs::is_directory(folder / "c"));
}

TEST_CASE("flushing and free space of a folder that is not there fail") {
    const TemporaryFolder folder;
    CHECK(free_bytes(folder.path()) > 0);
    CHECK_THROWS_AS(free_bytes(folder / "absent"), FileError);
    CHECK_THROWS_AS(sync_folder(folder / "absent", FileCalls::system()), FileError);
    FileCalls calls = FileCalls::system();
    calls.sync = [](int) {
        errno = EIO;
        return -1;
    };
    CHECK_THROWS_AS(sync_folder(folder.path(), calls), FileError);
}

}  // namespace oomb::trainer
