// What a folder writer leaves when something goes wrong: nothing.
#include <doctest/doctest.h>
#include <sys/mount.h>
#include <sys/wait.h>

#include <csignal>

#include "runtime/core/error.hpp"
#include "tests/weights/failing_calls.hpp"
#include "tests/weights/small_model.hpp"
#include "trainer/weights/hf_folder_writer.hpp"

namespace oomb::trainer {
namespace {

namespace fs = std::filesystem;

// A source with a config and a tokenizer, and a request for two shards of 64 KiB.
struct Setting {
    TemporaryFolder folder;
    HfFolderRequest request;
    std::vector<float> values = std::vector<float>(16384, 1.5F);

    Setting() {
        fs::create_directory(folder / "model");
        write_file(folder / "model/config.json", "{}");
        write_file(folder / "model/tokenizer.json", "{\"a\": 1}");
        request.source = folder / "model";
        request.out = folder / "out";
        request.tensors = {{"a", {16384}, DType::kF32}, {"b", {16384}, DType::kF32}};
        request.max_shard_bytes = 65536;
    }
    void write(const HfFolderWriter& writer) const {
        writer.write([this](const StoredTensor&) { return TensorValues(std::span<const float>(values)); }, "{}");
    }
    // Nothing but the source is in the folder.
    bool is_clean() const {
        std::size_t entries = 0;
        for (const auto& entry : fs::directory_iterator(folder.path())) {
            entries += entry.path().filename() != "model";
        }
        return entries == 0;
    }
};

// A file system of 1 MiB in memory, where mounting is permitted.
class SmallDisk {
  public:
    explicit SmallDisk(fs::path path) : path_(std::move(path)) {
        fs::create_directory(path_);
        is_mounted_ = ::mount("tmpfs", path_.c_str(), "tmpfs", 0, "size=1m") == 0;
    }
    SmallDisk(const SmallDisk&) = delete;
    SmallDisk& operator=(const SmallDisk&) = delete;
    ~SmallDisk() {
        if (is_mounted_) {
            ::umount2(path_.c_str(), MNT_DETACH);
        }
    }
    bool is_mounted() const { return is_mounted_; }
    fs::path operator/(const char* name) const { return path_ / name; }
    std::ptrdiff_t entries() const { return std::distance(fs::directory_iterator(path_), fs::directory_iterator()); }

  private:
    fs::path path_;
    bool is_mounted_ = false;
};

}  // namespace

TEST_CASE("whichever write or flush fails, nothing is left and the next attempt works") {
    const Setting setting;
    int failing = 0;
    for (;; ++failing) {
        FailingCalls calls(failing, 40000);
        const HfFolderWriter writer(setting.request, calls.calls());
        try {
            setting.write(writer);
            CHECK(calls.made() == failing);
            break;
        } catch (const FileError& error) {
            CAPTURE(failing);
            // The last call flushes the parent, after the rename: the folder is whole by then.
            const bool is_whole = fs::exists(setting.folder / "out/model.safetensors.index.json");
            CHECK((is_whole || setting.is_clean()));
            CHECK(mentions(error.what(), {"No space left"}));
            fs::remove_all(setting.folder / "out");
        }
    }
    CHECK(failing > 15);  // 6 files of which two take three writes or more, their flushes, two folders
    CHECK(fs::exists(setting.folder / "out/model-00002-of-00002.safetensors"));
}

TEST_CASE("an existing folder, file or dangling link is not touched") {
    const Setting setting;
    fs::create_directory(setting.folder / "out");
    CHECK(mentions(message_of<FileError>([&] { HfFolderWriter{setting.request}; }), {"/out", "exists"}));
    fs::remove(setting.folder / "out");
    fs::create_symlink("nowhere", setting.folder / "out");
    CHECK_THROWS_AS(HfFolderWriter{setting.request}, FileError);
    fs::remove(setting.folder / "out");

    // It may also appear while the run goes on.
    const HfFolderWriter writer(setting.request);
    writer.write([&](const StoredTensor&) { return TensorValues(std::span<const float>(setting.values)); }, "{}");
    CHECK_THROWS_AS(setting.write(writer), FileError);
    CHECK(read_file(setting.folder / "out/run.json") == "{}");
}

TEST_CASE("a folder that appears during the last write is kept, and the partial one removed") {
    const Setting setting;
    const HfFolderWriter writer(setting.request);
    const auto appear = [&](const StoredTensor&) {
        fs::create_directory(setting.folder / "out");
        return TensorValues(std::span<const float>(setting.values));
    };
    CHECK(mentions(message_of<FileError>([&] { writer.write(appear, "{}"); }), {"renamed", "exists"}));
    CHECK(fs::is_empty(setting.folder / "out"));
    fs::remove(setting.folder / "out");
    CHECK(setting.is_clean());
}

TEST_CASE("missing parents, sources and empty names are refused at the start") {
    Setting setting;
    HfFolderRequest request = setting.request;
    request.out = setting.folder / "absent/out";
    CHECK(mentions(message_of<FileError>([&] { HfFolderWriter{request}; }), {"absent", "create it first"}));
    request.out = "";
    CHECK_THROWS_AS(HfFolderWriter{request}, FileError);
    request = setting.request;
    request.source = setting.folder / "absent";
    CHECK_THROWS_AS(HfFolderWriter{request}, FileError);
    write_file(setting.folder / "model/config.json", "{\"a\": 1, \"a\": 2}");
    CHECK_THROWS_AS(HfFolderWriter{setting.request}, FileError);
    CHECK(setting.is_clean());
}

TEST_CASE("too little space is seen before anything is written") {
    Setting setting;
    setting.request.tensors.push_back({"huge", {std::int64_t{1} << 55}, DType::kF32});
    const std::string message = message_of<DoesNotFitError>([&] { HfFolderWriter{setting.request}; });
    CHECK(mentions(message, {"/out", "144,115,188,075,"}));  // 2^57 bytes and some
    setting.request.tensors.pop_back();
    const HfFolderWriter writer(setting.request);
    CHECK_THROWS_AS(writer.check_space(std::int64_t{1} << 40), DoesNotFitError);
    CHECK(setting.is_clean());
}

TEST_CASE("values that the stored type cannot hold name the tensor") {
    Setting setting;
    setting.request.tensors[1].dtype = DType::kF16;
    setting.values.back() = 1e6F;
    const HfFolderWriter writer(setting.request);
    CHECK(mentions(message_of<NumericError>([&] { setting.write(writer); }), {"tensor b", "1 values", "fp16"}));
    CHECK(setting.is_clean());
}

TEST_CASE("an exception of the caller and a tensor of the wrong size leave nothing") {
    Setting setting;
    const HfFolderWriter writer(setting.request);
    CHECK_THROWS_AS(writer.write([](const StoredTensor&) -> TensorValues { throw NumericError("stop"); }, "{}"),
                    NumericError);
    CHECK(setting.is_clean());
    setting.values.pop_back();
    CHECK_THROWS_AS(setting.write(writer), InternalError);
    CHECK(setting.is_clean());
}

TEST_CASE("a disk that fills up while writing") {
    Setting setting;
    const SmallDisk disk(setting.folder / "disk");
    if (!disk.is_mounted()) {
        MESSAGE("skipped: mounting is not permitted here");
        return;
    }
    setting.request.out = disk / "out";
    const HfFolderWriter writer(setting.request);
    write_file(disk / "other", std::string(900 << 10, 'x'));  // somebody else was faster
    const auto calls = [&](const StoredTensor&) { return TensorValues(std::span<const float>(setting.values)); };
    CHECK_THROWS_AS(writer.write(calls, "{}"), DoesNotFitError);
    fs::resize_file(disk / "other", 700 << 10);
    bool is_first = true;
    const auto fill_disk = [&](const StoredTensor& tensor) {
        if (is_first) {
            write_file(disk / "another", std::string(200 << 10, 'x'));
        }
        is_first = false;
        return calls(tensor);
    };
    CHECK(mentions(message_of<FileError>([&] { writer.write(fill_disk, "{}"); }), {"model-0000", "No space left"}));
    CHECK(disk.entries() == 2);
}

TEST_CASE("a process that dies while writing leaves the partial folder alone, and the next one is not disturbed") {
    const Setting setting;
    const pid_t child = ::fork();
    REQUIRE(child >= 0);
    if (child == 0) {
        const HfFolderWriter writer(setting.request);
        writer.write(
            [](const StoredTensor&) -> TensorValues {
                ::raise(SIGKILL);
                throw NumericError("unreachable");
            },
            "{}");
    }
    int status = 0;
    REQUIRE(::waitpid(child, &status, 0) == child);
    CHECK(WIFSIGNALED(status));
    const fs::path partial = setting.folder / ("out.partial-" + std::to_string(child));
    CHECK(fs::is_directory(partial));
    CHECK_FALSE(fs::exists(setting.folder / "out"));
    // As if this process had the dead one's id.
    fs::rename(partial, setting.folder / ("out.partial-" + std::to_string(::getpid())));
    setting.write(HfFolderWriter(setting.request));
    CHECK(fs::exists(setting.folder / "out/model.safetensors.index.json"));
    fs::remove_all(setting.folder / "out");
    CHECK(setting.is_clean());
}

}  // namespace oomb::trainer
