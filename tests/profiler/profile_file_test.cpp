#include <doctest/doctest.h>
#include <sys/resource.h>

#include <algorithm>
#include <csignal>
#include <cstring>

#include "runtime/core/error.hpp"
#include "tests/profiler/fabricated.hpp"

namespace oomb::profiler {
namespace {

struct Read {
    SessionHeader header;
    std::vector<Record> records = {};
    FileFaults faults = {};
};

Read read_all(const std::filesystem::path& path) {
    ProfileReader reader(path);
    Read read{.header = reader.header()};
    for (Record record; reader.next(record);) {
        read.records.push_back(record);
    }
    read.faults = reader.faults();
    return read;
}

std::string message_of(const std::filesystem::path& path) {
    try {
        read_all(path);
    } catch (const FileError& error) {
        return error.what();
    }
    return "";
}

bool contains(const std::string& text, const std::string& part) {
    return text.find(part) != std::string::npos;
}

// Random records in `blocks` blocks, closed; what a reader is to find, strings included.
std::vector<Record> write_random(const std::filesystem::path& path, int blocks, int records, bool close = true) {
    Random random(17);
    ProfileWriter writer(path, test_header());
    std::vector<Record> written;
    for (int block = 0; block < blocks; ++block) {
        for (int i = 0; i < records; ++i) {
            if (i % 7 == 0) {
                const std::string text = "name " + std::to_string(block) + "," + std::to_string(i);
                written.push_back(StringRecord{writer.intern(text), text});
            }
            written.push_back(random_record(random));
            writer.add(written.back());
        }
        writer.flush();
    }
    if (close) {
        writer.close();
    }
    return written;
}

// Where each block begins; the last is the end of the file.
std::vector<std::size_t> block_offsets(const std::string& bytes) {
    std::vector<std::size_t> offsets;
    std::size_t at = kFileHeader_bytes;
    while (at < bytes.size()) {
        offsets.push_back(at);
        std::uint32_t size = 0;
        std::memcpy(&size, bytes.data() + at + 4, 4);
        at += kBlockHeader_bytes + size;
    }
    offsets.push_back(at);
    return offsets;
}

}  // namespace

TEST_CASE("numbers of seven bits a byte, differences of either sign") {
    std::string bytes;
    append_varint(0x7F, bytes);
    append_varint(0x80, bytes);
    append_varint(~std::uint64_t{0}, bytes);
    CHECK(bytes == std::string("\x7F\x80\x01", 3) + std::string(9, '\xFF') + "\x01");
    CHECK(zigzag(0) == 0);
    CHECK(zigzag(1) == 2);
    CHECK(zigzag(~std::uint64_t{0}) == 1);
    Random random(1);
    for (int i = 0; i < 1000; ++i) {
        const std::uint64_t value = random();
        CHECK(unzigzag(zigzag(value)) == value);
    }
}

TEST_CASE("the checksum is that of zlib and PNG") {
    const std::string text = "123456789";
    CHECK(crc32(std::as_bytes(std::span(text))) == 0xCBF43926U);
    const auto bytes = std::as_bytes(std::span(text));
    CHECK(crc32(bytes.subspan(4), crc32(bytes.first(4))) == 0xCBF43926U);
}

TEST_CASE("every kind of record comes back as it was written, over block borders") {
    const TemporaryPath path;
    const std::vector<Record> written = write_random(path.get(), 5, 400);
    std::array<int, std::variant_size_v<Record>> kinds{};
    for (const Record& record : written) {
        kinds[record.index()] += 1;
    }
    CHECK(*std::min_element(kinds.begin(), kinds.end()) > 50);
    const Read read = read_all(path.get());
    CHECK(read.header == test_header());
    CHECK(read.records == written);
    CHECK(read.faults.whole);
    CHECK(read.faults.damaged_blocks == 0);
    CHECK(read.faults.missing_records == 0);
    CHECK(read.faults.cut_bytes == 0);
    CHECK(read.faults.trailing_bytes == 0);
}

TEST_CASE("a launch-bound minute is small: at most 24 bytes a kernel") {
    const TemporaryPath path;
    ProfileWriter writer(path.get(), test_header());
    const StringId names[] = {writer.intern("_Z3addPf"), writer.intern("_Z3mulPf")};
    Random random(2);
    std::int64_t at = 1'700'000'000'000'000'000;
    constexpr int kKernels = 50'000;
    for (std::uint32_t i = 0; i < kKernels; ++i) {
        at += 2'000 + random_below(random, 1'000);
        writer.add(Kernel{.begin_ns = at,
                          .end_ns = at + 1'000 + random_below(random, 500),
                          .place = {0, 1, 7 + i % 2},
                          .correlation = 3 * i,
                          .name = names[i % 2],
                          .grid_x = 1 + i % 2 * 131,
                          .grid_y = 1,
                          .grid_z = 1,
                          .block_x = 128U << i % 2,
                          .block_y = 1,
                          .block_z = 1,
                          .registers = 32});
    }
    writer.close();
    // Tag, two times of 2 to 3 bytes, 12 differences of 1 to 2 bytes.
    CHECK(writer.written_bytes() < 24 * kKernels);
    CHECK(read_all(path.get()).records.size() == kKernels + 2);
}

TEST_CASE("a killed program's file is read up to its last whole block, wherever it is cut") {
    const TemporaryPath path;
    const std::vector<Record> written = write_random(path.get(), 3, 30, false);
    const std::string bytes = path.bytes();
    const std::vector<std::size_t> offsets = block_offsets(bytes);
    REQUIRE(offsets.size() == 5);  // header, three blocks
    std::size_t last = 0;
    for (std::size_t size = offsets[1]; size <= bytes.size(); ++size) {
        path.write(bytes.substr(0, size));
        const Read read = read_all(path.get());
        CHECK_FALSE(read.faults.whole);
        CHECK(read.records.size() >= last);
        CHECK(std::equal(read.records.begin(), read.records.end(), written.begin()));
        const bool at_border = std::find(offsets.begin(), offsets.end(), size) != offsets.end();
        CHECK((read.faults.cut_bytes == 0) == at_border);
        last = read.records.size();
    }
    CHECK(last == written.size());
}

TEST_CASE("a cut header, an empty, a foreign, a newer and a missing file are refused by name") {
    const TemporaryPath path;
    CHECK(contains(message_of(path.get()), "cannot be opened"));
    path.write("");
    CHECK(contains(message_of(path.get()), "is empty"));
    path.write("{\"format\":\"oomb-trace\"}");
    CHECK(contains(message_of(path.get()), "is no profile"));
    CHECK(contains(message_of(path.get()), path.get().string()));
    path.write("OOMB");
    CHECK(contains(message_of(path.get()), "nothing was recorded"));
    std::filesystem::remove(path.get());
    write_random(path.get(), 1, 5);
    std::string bytes = path.bytes();
    const std::size_t first_block = block_offsets(bytes)[1];
    path.write(bytes.substr(0, first_block - 1));
    CHECK(contains(message_of(path.get()), "header is cut or damaged"));
    bytes[8] = 3;
    path.write(bytes);
    CHECK(contains(message_of(path.get()), "version 3, this program reads 1 to 2"));
}

// Version 1 is version 2 without its last two kinds.
TEST_CASE("a file of version 1 is read") {
    const TemporaryPath path;
    {
        ProfileWriter writer(path.get(), test_header());
        writer.add(Kernel{.begin_ns = 5, .end_ns = 9, .place = {1, 2, 3}, .name = writer.intern("kernel")});
        writer.add(Note{writer.intern("note")});
        writer.close();
    }
    std::string bytes = path.bytes();
    REQUIRE(bytes[8] == 2);
    bytes[8] = 1;
    path.write(bytes);
    const Profile profile = read_profile(path.get());
    CHECK(profile.file.whole);
    REQUIRE(profile.kernels.size() == 1);
    CHECK(profile.kernels[0].end_ns == 9);
    CHECK(profile.notes == std::vector<std::string>{"note"});
    bytes[8] = 0;
    path.write(bytes);
    CHECK(contains(message_of(path.get()), "version 0"));
}

TEST_CASE("any flipped bit leaves out its block, or is refused; the other blocks stay") {
    const TemporaryPath path;
    const std::vector<Record> written = write_random(path.get(), 3, 10);
    const std::string bytes = path.bytes();
    const std::vector<std::size_t> offsets = block_offsets(bytes);
    REQUIRE(offsets.size() == 6);
    std::int64_t left_out = 0;
    for (std::size_t at = offsets[1]; at < offsets[4]; ++at) {
        std::string damaged = bytes;
        damaged[at] = static_cast<char>(damaged[at] ^ (1 << at % 8));
        path.write(damaged);
        const Read read = read_all(path.get());
        CHECK(read.records.size() < written.size());
        CHECK((read.faults.damaged_blocks > 0 || read.faults.cut_bytes > 0));
        CHECK((!read.faults.whole || read.faults.missing_records == std::ssize(written) - std::ssize(read.records)));
        left_out += read.faults.damaged_blocks == 1 && read.faults.whole ? 1 : 0;
    }
    CHECK(left_out > 0);
}

TEST_CASE("a block with a right checksum and a wrong record is left out") {
    const TemporaryPath path;
    write_random(path.get(), 1, 3);
    const std::string bytes = path.bytes();
    const std::vector<std::size_t> offsets = block_offsets(bytes);
    const auto with_payload = [&](std::string payload, std::uint32_t records) {
        std::string block;
        for (const std::uint32_t word : {2U, static_cast<std::uint32_t>(payload.size()), records}) {
            block.append(reinterpret_cast<const char*>(&word), 4);
        }
        const std::uint32_t sum = crc32(std::as_bytes(std::span(payload)), crc32(std::as_bytes(std::span(block))));
        block.append(reinterpret_cast<const char*>(&sum), 4);
        path.write(bytes.substr(0, offsets[1]) + block + payload + bytes.substr(offsets[2]));
        return read_all(path.get());
    };
    CHECK(with_payload(std::string("\x0B\x02", 2), 1).records == std::vector<Record>{Note{1}});
    CHECK(with_payload(std::string("\x0C\x02", 2), 1).faults.damaged_blocks == 1);  // no such kind
    CHECK(with_payload(std::string("\x0B\x82", 2), 1).faults.damaged_blocks == 1);  // a cut number
    CHECK(with_payload(std::string("\x0B\x02", 2), 2).faults.damaged_blocks == 1);  // fewer records than told
    CHECK(with_payload(std::string("\x0B\x02\x0B\x02", 4), 1).faults.damaged_blocks == 1);
    CHECK(with_payload(std::string("\x00\x02\x05"
                                   "abc",
                                   6),
                       1)
              .faults.damaged_blocks == 1);                                             // a text past the end
    CHECK(with_payload(std::string("\x0A\x01\x00", 3), 1).faults.damaged_blocks == 1);  // a count below 0
}

TEST_CASE("names are written once, long ones are cut, too many become one") {
    const TemporaryPath path;
    ProfileWriter writer(path.get(), test_header());
    CHECK(writer.intern("") == 0);
    CHECK(writer.intern("a") == 1);
    CHECK(writer.intern("b") == 2);
    CHECK(writer.intern("a") == 1);
    writer.intern(std::string(kMostString_bytes + 5, 'x'));
    for (std::int64_t i = 3; i < ProfileWriter::kMostStrings; ++i) {
        writer.intern(std::to_string(i));
    }
    const StringId more = writer.intern("one more");
    CHECK(more == ProfileWriter::kMostStrings + 1);
    CHECK(writer.intern("and another") == more);
    CHECK(writer.intern("b") == 2);
    writer.close();
    const Profile profile = read_profile(path.get());
    CHECK(profile.text(2) == "b");
    CHECK(profile.text(3).size() == kMostString_bytes);
    CHECK(profile.text(more) == "(more names than a profile holds)");
    CHECK(profile.file.whole);
}

TEST_CASE("an existing file is not written over") {
    const TemporaryPath path;
    path.write("mine");
    CHECK_THROWS_AS(ProfileWriter(path.get(), test_header()), FileError);
    CHECK(path.bytes() == "mine");
}

TEST_CASE("what follows a block of impossible size, without an end, is cut off") {
    const TemporaryPath path;
    const std::vector<Record> written = write_random(path.get(), 2, 10);
    std::string bytes = path.bytes();
    const std::vector<std::size_t> offsets = block_offsets(bytes);
    bytes[offsets[2] + 7] = '\x7F';  // the top byte of the size of the second block
    path.write(bytes);
    const Read read = read_all(path.get());
    CHECK_FALSE(read.faults.whole);
    CHECK(read.records.size() < written.size());
    CHECK(read.faults.damaged_blocks == 1);
    CHECK(read.faults.cut_bytes == static_cast<std::int64_t>(bytes.size() - offsets[2] - kBlockHeader_bytes));
    CHECK(read.faults.trailing_bytes == 0);
}

TEST_CASE("no file is left where its header cannot be written") {
    const TemporaryPath path;
    rlimit before{};
    REQUIRE(getrlimit(RLIMIT_FSIZE, &before) == 0);
    auto* const handler = std::signal(SIGXFSZ, SIG_IGN);
    const rlimit small{.rlim_cur = 20, .rlim_max = before.rlim_max};
    REQUIRE(setrlimit(RLIMIT_FSIZE, &small) == 0);
    std::string message;
    try {
        ProfileWriter(path.get(), test_header());
    } catch (const FileError& error) {
        message = error.what();
    }
    setrlimit(RLIMIT_FSIZE, &before);
    std::signal(SIGXFSZ, handler);
    CHECK(contains(message, "writing failed after 20 bytes"));
    CHECK_FALSE(std::filesystem::exists(path.get()));
}

TEST_CASE("bytes after the end are counted") {
    const TemporaryPath path;
    const std::vector<Record> written = write_random(path.get(), 1, 3);
    path.write(path.bytes() + "tail");
    const Read read = read_all(path.get());
    CHECK(read.records == written);
    CHECK(read.faults.trailing_bytes == 4);
}

}  // namespace oomb::profiler
