#include "profiler/file/profile_writer.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "runtime/core/error.hpp"
#include "runtime/core/json.hpp"

namespace oomb::profiler {
namespace {

constexpr std::size_t kFlushAt_bytes = std::size_t{1} << 20;
constexpr std::string_view kTooManyNames = "(more names than a profile holds)";

std::string little_endian(std::initializer_list<std::uint32_t> words) {
    std::string bytes;
    for (const std::uint32_t word : words) {
        for (int shift = 0; shift < 32; shift += 8) {
            bytes.push_back(static_cast<char>((word >> shift) & 0xFF));
        }
    }
    return bytes;
}

std::string header_json(const SessionHeader& header) {
    // Names of programs and their arguments are any bytes.
    return nlohmann::ordered_json{{"program", header.program},
                                  {"command", header.command},
                                  {"process", header.process},
                                  {"begin_ns", header.begin_ns},
                                  {"cupti_version", header.cupti_version},
                                  {"driver_version", header.driver_version},
                                  {"operation_kinds", header.operation_kinds}}
        .dump(-1, ' ', false, Json::error_handler_t::replace);
}

}  // namespace

ProfileWriter::ProfileWriter(const std::filesystem::path& path, const SessionHeader& header)
    : path_(path), fd_(open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644)) {
    if (fd_ < 0) {
        fail<FileError>("{}: cannot be created: {}", path.string(), std::strerror(errno));
    }
    try {
        write(std::string(kProfileMagic) + little_endian({kProfileVersion, 0}));
        write_block(BlockKind::kHeader, header_json(header), 0);
    } catch (...) {  // nothing could be told from what is there, and no destructor runs
        ::close(fd_);
        ::unlink(path.c_str());
        throw;
    }
}

ProfileWriter::ProfileWriter(const std::filesystem::path& path, const ProfileEnd& end)
    : path_(path),
      fd_(open(path.c_str(), O_WRONLY | O_CLOEXEC)),
      written_bytes_(end.at_byte),
      total_records_(end.records),
      last_string_(end.last_string) {
    if (fd_ >= 0 && ftruncate(fd_, end.at_byte) == 0 && lseek(fd_, end.at_byte, SEEK_SET) == end.at_byte) {
        return;
    }
    const int reason = errno;
    if (fd_ >= 0) {
        ::close(fd_);
    }
    fail<FileError>("{}: cannot be continued: {}", path.string(), std::strerror(reason));
}

ProfileWriter::~ProfileWriter() {
    if (fd_ >= 0) {
        ::close(fd_);
    }
}

StringId ProfileWriter::intern(std::string_view text) {
    text = text.substr(0, kMostString_bytes);
    if (text.empty()) {
        return 0;
    }
    const std::string key(std::ssize(strings_) < kMostStrings || strings_.contains(std::string(text)) ? text
                                                                                                      : kTooManyNames);
    const auto [found, is_new] = strings_.try_emplace(key, last_string_ + strings_.size() + 1);
    if (is_new) {
        append(StringRecord{found->second, {}});
        append_varint(key.size(), block_);
        block_ += key;
    }
    return found->second;
}

template <class R>
void ProfileWriter::append(const R& record) {
    const std::size_t tag = Record(record).index();
    std::size_t place = 0;
    block_.push_back(static_cast<char>(tag));
    for_each_field(fields(record), [&](const auto& field) {
        const auto value = static_cast<std::uint64_t>(field);
        std::uint64_t& before = previous_[tag][place++];
        append_varint(zigzag(value - before), block_);
        before = value;
    });
    ++block_records_;
    ++total_records_;
}

void ProfileWriter::add(const Record& record) {
    require(!std::holds_alternative<StringRecord>(record), "strings are written by intern()");
    std::visit([&](const auto& r) { append(r); }, record);
    if (block_.size() >= kFlushAt_bytes) {
        flush();
    }
}

void ProfileWriter::flush() {
    if (block_records_ == 0) {
        return;
    }
    const std::string payload = std::exchange(block_, {});
    write_block(BlockKind::kRecords, payload, std::exchange(block_records_, 0));
    previous_ = {};
}

void ProfileWriter::close() {
    flush();
    std::string count;
    append_varint(static_cast<std::uint64_t>(total_records_), count);
    write_block(BlockKind::kEnd, count, 0);
    if (fsync(fd_) != 0 && errno != EINVAL && errno != EROFS) {  // a pipe has nothing to sync
        fail<FileError>("{}: cannot be flushed to the disk: {}", path_.string(), std::strerror(errno));
    }
    ::close(std::exchange(fd_, -1));
}

// In one piece: a block is there, or it is the cut end of the file.
void ProfileWriter::write_block(BlockKind kind, std::string_view payload, std::uint32_t records) {
    const std::string head =
        little_endian({static_cast<std::uint32_t>(kind), static_cast<std::uint32_t>(payload.size()), records});
    const std::uint32_t sum = crc32(std::as_bytes(std::span(payload)), crc32(std::as_bytes(std::span(head))));
    write(head + little_endian({sum}) + std::string(payload));
}

void ProfileWriter::write(std::string_view bytes) {
    while (!bytes.empty()) {
        const ssize_t done = ::write(fd_, bytes.data(), bytes.size());
        if (done < 0 && errno == EINTR) {
            continue;
        }
        if (done < 0) {
            fail<FileError>("{}: writing failed after {} bytes: {}", path_.string(), written_bytes_,
                            std::strerror(errno));
        }
        written_bytes_ += done;
        bytes.remove_prefix(static_cast<std::size_t>(done));
    }
}

}  // namespace oomb::profiler
