#include "trainer/data/npy.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <charconv>
#include <cstring>
#include <map>
#include <string_view>

#include "runtime/core/error.hpp"
#include "runtime/core/json.hpp"

namespace oomb::trainer {
namespace {

constexpr std::string_view kMagic = "\x93NUMPY";

std::string shown(std::string_view text) {
    return quoted(Json(text));
}

// The header is a Python dictionary literal with string keys; its values are a string, True or False, and a tuple of
// integers. `Literal` cuts it into key -> text of the value.
class Literal {
  public:
    Literal(std::string_view text, const std::string& name) : rest_(text), name_(name) {}

    std::map<std::string, std::string, std::less<>> read() {
        std::map<std::string, std::string, std::less<>> entries;
        expect('{');
        while (!accept('}')) {
            const std::string key(read_string());
            expect(':');
            if (!entries.emplace(key, read_value()).second) {
                fail<FileError>("{}: the header has the key {} twice", name_, shown(key));
            }
            if (!accept(',')) {
                expect('}');
                break;
            }
        }
        skip_blanks();
        if (!rest_.empty()) {
            refuse();
        }
        return entries;
    }

  private:
    [[noreturn]] void refuse() const {
        fail<FileError>("{}: the .npy header is damaged near {}", name_, shown(rest_.substr(0, 40)));
    }

    void skip_blanks() {
        const std::size_t end = rest_.find_first_not_of(" \n\t");
        rest_.remove_prefix(std::min(end, rest_.size()));
    }

    bool accept(char wanted) {
        skip_blanks();
        if (rest_.empty() || rest_.front() != wanted) {
            return false;
        }
        rest_.remove_prefix(1);
        return true;
    }

    void expect(char wanted) {
        if (!accept(wanted)) {
            refuse();
        }
    }

    std::string_view take(std::size_t count) {
        const std::string_view result = rest_.substr(0, count);
        rest_.remove_prefix(count);
        return result;
    }

    std::string_view read_string() {
        const char quote = accept('\'') ? '\'' : '"';
        if (quote == '"') {
            expect('"');
        }
        const std::size_t end = rest_.find(quote);
        if (end == std::string_view::npos) {
            refuse();
        }
        const std::string_view result = take(end);
        rest_.remove_prefix(1);
        return result;
    }

    std::string read_value() {
        skip_blanks();
        if (rest_.starts_with('\'') || rest_.starts_with('"')) {
            return std::string(read_string());
        }
        if (rest_.starts_with('(')) {
            const std::size_t end = rest_.find(')');
            return std::string(take(end == std::string_view::npos ? 0 : end + 1));
        }
        return std::string(take(std::min(rest_.find_first_of(" ,}\n"), rest_.size())));
    }

    std::string_view rest_;
    const std::string& name_;
};

// "(123,)" -> 123.
std::int64_t read_shape(const std::string& text, const std::string& name) {
    std::string_view body = text;
    std::int64_t size = 0;
    const bool has_form = body.size() > 3 && body.starts_with('(') && body.ends_with(",)");
    if (has_form) {
        body = body.substr(1, body.size() - 3);
        const auto [end, error] = std::from_chars(body.data(), body.data() + body.size(), size);
        if (error == std::errc() && end == body.data() + body.size() && size >= 0) {
            return size;
        }
    }
    fail<FileError>("{}: shape {}, expected one dimension, such as (1000,); flatten the array before saving it", name,
                    shown(text));
}

std::int64_t element_bytes_of(const std::string& descr, const std::string& name) {
    if (descr == "<u2" || descr == "<u4") {
        return descr == "<u2" ? 2 : 4;
    }
    fail<FileError>(
        "{}: element type {}{}, expected '<u2' or '<u4' (little-endian uint16 or uint32); convert with "
        "numpy's astype before saving",
        name, shown(descr), descr.starts_with('>') ? " (big-endian)" : "");
}

// The text of the header and where the data begins.
std::string_view header_of(std::span<const std::byte> file, const std::string& name, std::int64_t& data_begin_bytes) {
    const std::string_view text(reinterpret_cast<const char*>(file.data()), file.size());
    if (!text.starts_with(kMagic) || text.size() < kMagic.size() + 2) {
        fail<FileError>("{}: not a .npy file (it does not begin with NumPy's signature)", name);
    }
    const int major = static_cast<unsigned char>(text[6]);
    if (major < 1 || major > 3) {
        fail<FileError>("{}: .npy format version {}, versions 1 to 3 are read", name, major);
    }
    const std::size_t length_bytes = major == 1 ? 2 : 4;
    const std::size_t header_begin = 8 + length_bytes;
    std::uint32_t length = 0;
    if (text.size() >= header_begin) {
        std::memcpy(&length, text.data() + 8, length_bytes);
    }
    if (text.size() < header_begin || length > text.size() - header_begin) {
        fail<FileError>("{}: header length {} bytes, but the file has only {} bytes in all; truncated?", name, length,
                        text.size());
    }
    data_begin_bytes = static_cast<std::int64_t>(header_begin + length);
    return text.substr(header_begin, length);
}

}  // namespace

NpyTokens parse_npy(std::span<const std::byte> file, const std::string& name_in_messages) {
    NpyTokens result;
    const std::string_view header = header_of(file, name_in_messages, result.data_begin_bytes);
    const auto entries = Literal(header, name_in_messages).read();
    for (const char* key : {"descr", "fortran_order", "shape"}) {
        if (!entries.contains(key) || entries.size() != 3) {
            fail<FileError>("{}: the .npy header must have the keys descr, fortran_order and shape alone",
                            name_in_messages);
        }
    }
    if (entries.find("fortran_order")->second != "False") {
        fail<FileError>("{}: fortran_order is {}, expected False (C order)", name_in_messages,
                        shown(entries.find("fortran_order")->second));
    }
    result.element_bytes = element_bytes_of(entries.find("descr")->second, name_in_messages);
    result.tokens = read_shape(entries.find("shape")->second, name_in_messages);
    const std::int64_t data_bytes = static_cast<std::int64_t>(file.size()) - result.data_begin_bytes;
    if (data_bytes % result.element_bytes != 0 || data_bytes / result.element_bytes != result.tokens) {
        fail<FileError>(
            "{}: the header says {} tokens of {} bytes, the file has {} bytes of data; truncated or damaged",
            name_in_messages, result.tokens, result.element_bytes, data_bytes);
    }
    return result;
}

std::string npy_of_losses(std::span<const float> losses) {
    static_assert(std::endian::native == std::endian::little);
    constexpr std::size_t kAlignment = 64;  // of the data, as the format asks for
    std::string header = fmt::format("{{'descr': '<f4', 'fortran_order': False, 'shape': ({},), }}", losses.size());
    const std::size_t before = kMagic.size() + 2 + 2, unpadded = before + header.size() + 1;
    header.append((kAlignment - unpadded % kAlignment) % kAlignment, ' ').push_back('\n');
    std::string file(kMagic);
    file += {'\1', '\0', static_cast<char>(header.size() % 256), static_cast<char>(header.size() / 256)};
    file += header;
    return file.append(reinterpret_cast<const char*>(losses.data()), losses.size_bytes());
}

}  // namespace oomb::trainer
