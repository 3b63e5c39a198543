#include "profiler/file/profile_reader.hpp"

#include <limits>
#include <optional>

#include "runtime/core/error.hpp"
#include "runtime/core/json.hpp"

namespace oomb::profiler {
namespace {

std::uint32_t word_at(std::string_view bytes, std::size_t at) {
    std::uint32_t word = 0;
    for (std::size_t i = 0; i < 4; ++i) {
        word |= static_cast<std::uint32_t>(static_cast<unsigned char>(bytes[at + i])) << (8 * i);
    }
    return word;
}

// Walks the payload of a block. After the first thing that cannot be, `good()` is false and nothing more is read.
class Cursor {
  public:
    explicit Cursor(std::string_view bytes) : bytes_(bytes) {}

    bool good() const { return good_; }
    bool at_end() const { return bytes_.empty(); }

    std::uint64_t varint() {
        std::uint64_t value = 0;
        for (int shift = 0; shift < 64 && !bytes_.empty(); shift += 7) {
            const auto byte = static_cast<unsigned char>(bytes_.front());
            bytes_.remove_prefix(1);
            value |= static_cast<std::uint64_t>(byte & 0x7F) << shift;
            if (byte < 0x80) {
                good_ = good_ && (shift < 63 || byte <= 1);
                return value;
            }
        }
        good_ = false;
        return 0;
    }

    std::string_view text(std::uint64_t size) {
        if (size > bytes_.size() || size > kMostString_bytes) {
            good_ = false;
            return {};
        }
        const std::string_view found = bytes_.substr(0, size);
        bytes_.remove_prefix(size);
        return found;
    }

    void refuse() { good_ = false; }

  private:
    std::string_view bytes_;
    bool good_ = true;
};

template <class T>
bool fits(std::uint64_t value) {
    if constexpr (std::is_enum_v<T>) {
        return value < static_cast<std::uint64_t>(kValues<T>);
    } else if constexpr (std::is_signed_v<T>) {
        return value <= static_cast<std::uint64_t>(kMostNumber);
    } else {
        return value <= std::numeric_limits<T>::max();
    }
}

template <class R>
R read_record(Cursor& cursor, FieldValues& previous) {
    R record;
    std::size_t place = 0;
    for_each_field(fields(record), [&](auto& field) {
        using T = std::remove_cvref_t<decltype(field)>;
        const std::uint64_t value = previous[place] + unzigzag(cursor.varint());
        previous[place++] = value;
        if (!fits<T>(value)) {
            cursor.refuse();
            return;
        }
        field = static_cast<T>(value);
    });
    if constexpr (std::is_same_v<R, StringRecord>) {
        record.text = std::string(cursor.text(cursor.varint()));
    }
    return record;
}

template <std::size_t... I>
std::optional<Record> read_any(Cursor& cursor, Previous& previous, std::index_sequence<I...>) {
    const std::uint64_t tag = cursor.varint();
    std::optional<Record> record;
    const bool known =
        ((tag == I && (record = read_record<std::variant_alternative_t<I, Record>>(cursor, previous[I]), true)) || ...);
    return known && cursor.good() ? record : std::nullopt;
}

SessionHeader parse_header(const std::string& text, const std::string& name) {
    const Json json = parse_json(text, name);
    const JsonNode root(json, name);
    SessionHeader header{.program = root.as_object().at("program").as_string(),
                         .command = root.at("command").as_string(),
                         .process = root.at("process").as_integer(0),
                         .begin_ns = root.at("begin_ns").as_integer(0, kMostNumber),
                         .cupti_version = root.at("cupti_version").as_integer(0),
                         .driver_version = root.at("driver_version").as_integer(0)};
    const JsonNode kinds = root.at("operation_kinds");
    for (std::size_t i = 0; i < kinds.as_array().size(); ++i) {
        header.operation_kinds.push_back(kinds.item(i).as_string());
    }
    return header;
}

}  // namespace

ProfileReader::ProfileReader(const std::filesystem::path& path) : path_(path), file_(path, std::ios::binary) {
    if (!file_) {
        fail<FileError>("{}: cannot be opened", path.string());
    }
    read_header();
}

std::size_t ProfileReader::read(char* to, std::size_t bytes) {
    file_.read(to, static_cast<std::streamsize>(bytes));
    if (file_.bad()) {
        fail<FileError>("{}: reading failed", path_.string());
    }
    position_ += file_.gcount();
    return static_cast<std::size_t>(file_.gcount());
}

void ProfileReader::read_header() {
    std::string head(kFileHeader_bytes, '\0');
    const std::size_t found = read(head.data(), head.size());
    if (found == 0) {
        fail<FileError>("{}: is empty; the recorder writes its header at once, so recording never began",
                        path_.string());
    }
    if (!std::string_view(head).starts_with(kProfileMagic.substr(0, std::min(found, kProfileMagic.size())))) {
        fail<FileError>("{}: is no profile: those begin with {}", path_.string(), kProfileMagic);
    }
    if (found < head.size()) {
        fail<FileError>("{}: ends within its first {} bytes: nothing was recorded", path_.string(), head.size());
    }
    if (const std::uint32_t version = word_at(head, kProfileMagic.size());
        version < kOldestProfileVersion || version > kProfileVersion) {
        fail<FileError>("{}: format version {}, this program reads {} to {}; read it with the version that wrote it",
                        path_.string(), version, kOldestProfileVersion, kProfileVersion);
    }
    BlockHeader header;
    if (read_block(header) != Block::kRead || header.kind != BlockKind::kHeader) {
        fail<FileError>("{}: its header is cut or damaged: nothing in it can be told", path_.string());
    }
    header_ = parse_header(payload_, path_.string() + ", header");
}

ProfileReader::Block ProfileReader::read_block(BlockHeader& header) {
    std::string head(kBlockHeader_bytes, '\0');
    const std::size_t found = read(head.data(), head.size());
    if (found < head.size()) {
        faults_.cut_bytes += static_cast<std::int64_t>(found);
        return Block::kNone;
    }
    header = {static_cast<BlockKind>(word_at(head, 0)), word_at(head, 4), word_at(head, 8), word_at(head, 12)};
    if (header.payload_bytes > kMostBlock_bytes) {  // where the next block begins is not known either
        faults_.damaged_blocks += 1;
        return Block::kNone;
    }
    payload_.resize(header.payload_bytes);
    const std::size_t got = read(payload_.data(), payload_.size());
    if (got < payload_.size()) {
        faults_.cut_bytes += static_cast<std::int64_t>(found + got);
        return Block::kNone;
    }
    const auto covered = std::as_bytes(std::span(head)).first(kBlockHeader_bytes - 4);
    return crc32(std::as_bytes(std::span(payload_)), crc32(covered)) == header.sum ? Block::kRead : Block::kDamaged;
}

// All of a block or nothing: a record that cannot be makes the others doubtful.
bool ProfileReader::decode_block(std::uint32_t records) {
    Cursor cursor(payload_);
    Previous previous{};
    records_.clear();
    given_ = 0;
    while (!cursor.at_end()) {
        std::optional<Record> record =
            read_any(cursor, previous, std::make_index_sequence<std::variant_size_v<Record>>());
        if (!record || records_.size() == records) {
            records_.clear();
            return false;
        }
        records_.push_back(std::move(*record));
    }
    return records_.size() == records;
}

bool ProfileReader::next_records() {
    for (BlockHeader header; !ended_;) {
        blocks_end_ = position_;
        switch (read_block(header)) {
            case Block::kNone:
                finish();
                return false;
            case Block::kDamaged:
                faults_.damaged_blocks += 1;
                continue;
            case Block::kRead:
                break;
        }
        if (header.kind == BlockKind::kRecords && decode_block(header.records)) {
            total_records_ += std::ssize(records_);
            return true;
        }
        if (header.kind == BlockKind::kEnd) {
            faults_.whole = true;
            const std::uint64_t all = Cursor(payload_).varint();
            const auto read_records = static_cast<std::uint64_t>(total_records_);
            faults_.missing_records =
                all > read_records && fits<std::int64_t>(all) ? static_cast<std::int64_t>(all - read_records) : 0;
            finish();
            return false;
        }
        faults_.damaged_blocks += 1;
    }
    return false;
}

void ProfileReader::finish() {
    ended_ = true;
    file_.clear();
    std::array<char, 4096> rest{};
    for (std::size_t got = read(rest.data(), rest.size()); got > 0; got = read(rest.data(), rest.size())) {
        (faults_.whole ? faults_.trailing_bytes : faults_.cut_bytes) += static_cast<std::int64_t>(got);
    }
}

bool ProfileReader::next(Record& record) {
    while (given_ == records_.size()) {
        records_.clear();
        given_ = 0;
        if (!next_records()) {
            return false;
        }
    }
    record = std::move(records_[given_++]);
    return true;
}

}  // namespace oomb::profiler
