#include "trainer/weights/safetensors.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <utility>

#include "runtime/core/error.hpp"
#include "runtime/core/json.hpp"

namespace oomb::trainer {
namespace {

static_assert(std::endian::native == std::endian::little, "tensor bytes are used as they lie in the file");

constexpr std::int64_t kLengthBytes = 8;

struct ElementType {
    std::string_view name;
    std::int64_t bits;
    std::optional<DType> dtype;
};

constexpr std::array<ElementType, 20> kElementTypes{{
    {"F64", 64, DType::kF64},     {"F32", 32, DType::kF32},     {"BF16", 16, DType::kBF16},
    {"F16", 16, DType::kF16},     {"BOOL", 8, std::nullopt},    {"U8", 8, std::nullopt},
    {"I8", 8, std::nullopt},      {"U16", 16, std::nullopt},    {"I16", 16, std::nullopt},
    {"U32", 32, std::nullopt},    {"I32", 32, std::nullopt},    {"U64", 64, std::nullopt},
    {"I64", 64, std::nullopt},    {"C64", 64, std::nullopt},    {"F8_E4M3", 8, std::nullopt},
    {"F8_E5M2", 8, std::nullopt}, {"F8_E8M0", 8, std::nullopt}, {"F6_E2M3", 6, std::nullopt},
    {"F6_E3M2", 6, std::nullopt}, {"F4", 4, std::nullopt},
}};

// The JSON header and where the data begins; only the length has been checked.
std::string_view header_of(const MappedFile& file) {
    const std::span<const std::byte> bytes = file.bytes();
    const auto file_bytes = static_cast<std::int64_t>(bytes.size());
    if (file_bytes < kLengthBytes) {
        fail<FileError>("{}: {} bytes, too short for a safetensors file", file.path().string(), file_bytes);
    }
    std::uint64_t length = 0;
    std::memcpy(&length, bytes.data(), sizeof(length));
    if (length > static_cast<std::uint64_t>(SafetensorsFile::kMaxHeaderBytes)) {
        fail<FileError>("{}: header length {} bytes, allowed are {}; not a safetensors file, or damaged",
                        file.path().string(), length, SafetensorsFile::kMaxHeaderBytes);
    }
    if (static_cast<std::int64_t>(length) > file_bytes - kLengthBytes) {
        fail<FileError>("{}: header length {} bytes, but the file has only {} after the length; truncated?",
                        file.path().string(), length, file_bytes - kLengthBytes);
    }
    return {reinterpret_cast<const char*>(bytes.data()) + kLengthBytes, static_cast<std::size_t>(length)};
}

// Turns the header's entries into tensors; every refusal names the file and the tensor.
class HeaderReader {
  public:
    HeaderReader(const Json& header, const std::string& file_name, std::int64_t data_bytes)
        : root_(header, file_name), data_bytes_(data_bytes) {}

    std::vector<TensorInfo> read() const {
        std::vector<TensorInfo> tensors;
        for (const auto& [name, entry] : root_.as_object().value().items()) {
            if (name == "__metadata__") {
                check_metadata();
            } else {
                tensors.push_back(read_tensor(name));
            }
        }
        std::stable_sort(tensors.begin(), tensors.end(), [](const TensorInfo& a, const TensorInfo& b) {
            return std::pair(a.begin_bytes, a.end_bytes) < std::pair(b.begin_bytes, b.end_bytes);
        });
        check_coverage(tensors);
        return tensors;
    }

  private:
    template <class... Args>
    [[noreturn]] void refuse(const std::string& name, fmt::format_string<Args...> format, Args&&... args) const {
        fail<FileError>("{}: tensor {}: {}", root_.file(), quoted_name(name),
                        fmt::format(format, std::forward<Args>(args)...));
    }

    void check_metadata() const {
        const JsonNode metadata = root_.at("__metadata__");
        for (const auto& [key, value] : metadata.as_object().value().items()) {
            metadata.at(key).as_string();
        }
    }

    TensorInfo read_tensor(const std::string& name) const {
        const JsonNode entry = root_.at(name);
        if (entry.as_object().value().size() != 3) {
            refuse(name, "{} keys, expected dtype, shape and data_offsets alone", entry.value().size());
        }
        TensorInfo tensor;
        tensor.name = name;
        const ElementType& type = read_type(name, entry.at("dtype").as_string());
        tensor.dtype_name = type.name;
        tensor.dtype = type.dtype;
        tensor.shape = read_integers(entry.at("shape"));
        tensor.elements = product(name, tensor.shape);
        read_range(tensor, entry.at("data_offsets"));
        check_bytes(tensor, type.bits);
        return tensor;
    }

    const ElementType& read_type(const std::string& name, const std::string& text) const {
        const auto* found = std::find_if(kElementTypes.begin(), kElementTypes.end(),
                                         [&](const ElementType& type) { return type.name == text; });
        if (found == kElementTypes.end()) {
            refuse(name, "unknown dtype {}", quoted_name(text));
        }
        return *found;
    }

    static std::vector<std::int64_t> read_integers(const JsonNode& node) {
        std::vector<std::int64_t> numbers;
        for (std::size_t i = 0; i < node.size(); ++i) {
            numbers.push_back(node.item(i).as_integer(0));
        }
        return numbers;
    }

    std::int64_t product(const std::string& name, const std::vector<std::int64_t>& shape) const {
        std::int64_t elements = 1;
        for (const std::int64_t size : shape) {
            if (__builtin_mul_overflow(elements, size, &elements)) {
                refuse(name, "the product of shape {} passes 2^63", list_text(shape));
            }
        }
        return elements;
    }

    void read_range(TensorInfo& tensor, const JsonNode& node) const {
        const std::vector<std::int64_t> range = read_integers(node);
        if (range.size() != 2 || range[0] > range[1]) {
            refuse(tensor.name, "data_offsets {}, expected [begin, end] with begin <= end", list_text(range));
        }
        tensor.begin_bytes = range[0];
        tensor.end_bytes = range[1];
        if (tensor.end_bytes > data_bytes_) {
            refuse(tensor.name, "data_offsets {} reach beyond the {} data bytes of the file; truncated?",
                   list_text(range), data_bytes_);
        }
    }

    void check_bytes(const TensorInfo& tensor, std::int64_t element_bits) const {
        std::int64_t bits = 0;
        const bool overflows = __builtin_mul_overflow(tensor.elements, element_bits, &bits);
        const std::int64_t range_bytes = tensor.end_bytes - tensor.begin_bytes;
        if (overflows || bits % 8 != 0 || bits / 8 != range_bytes) {
            refuse(tensor.name, "{} of shape {} does not take the {} bytes of its data_offsets", tensor.dtype_name,
                   list_text(tensor.shape), range_bytes);
        }
    }

    // `tensors` in order of position: each must begin where the one before it ends.
    void check_coverage(const std::vector<TensorInfo>& tensors) const {
        std::int64_t covered_bytes = 0;
        for (const TensorInfo& tensor : tensors) {
            if (tensor.begin_bytes != covered_bytes) {
                refuse(tensor.name, "begins at data byte {}, but the tensors before it end at {}: {}",
                       tensor.begin_bytes, covered_bytes, tensor.begin_bytes < covered_bytes ? "overlap" : "gap");
            }
            covered_bytes = tensor.end_bytes;
        }
        if (covered_bytes != data_bytes_) {
            fail<FileError>("{}: {} data bytes, but the tensors take {}", root_.file(), data_bytes_, covered_bytes);
        }
    }

    JsonNode root_;
    std::int64_t data_bytes_;
};

}  // namespace

std::string_view safetensors_name(DType type) {
    for (const ElementType& entry : kElementTypes) {
        if (entry.dtype == type) {
            return entry.name;
        }
    }
    fail<InternalError>("element type {} has no name in safetensors", static_cast<int>(type));
}

std::string quoted_name(std::string_view name) {
    return quoted(Json(name));
}

std::string list_text(const std::vector<std::int64_t>& numbers) {
    std::string text;
    for (const std::int64_t number : numbers) {
        text += (text.empty() ? "" : ", ") + std::to_string(number);
    }
    return "[" + text + "]";
}

SafetensorsFile SafetensorsFile::open(const std::filesystem::path& path) {
    SafetensorsFile result(MappedFile::open(path));
    const std::string_view header = header_of(result.file_);
    result.data_begin_bytes_ = kLengthBytes + static_cast<std::int64_t>(header.size());
    const std::int64_t data_bytes = static_cast<std::int64_t>(result.file_.bytes().size()) - result.data_begin_bytes_;
    const Json json = parse_json(header, path.string(), {.max_bytes = kMaxHeaderBytes, .max_depth = 8});
    result.tensors_ = HeaderReader(json, path.string(), data_bytes).read();
    for (std::size_t i = 0; i < result.tensors_.size(); ++i) {
        result.index_.emplace(result.tensors_[i].name, i);
    }
    return result;
}

const TensorInfo* SafetensorsFile::find(std::string_view name) const {
    const auto entry = index_.find(name);
    return entry == index_.end() ? nullptr : &tensors_[entry->second];
}

std::span<const std::byte> SafetensorsFile::bytes(const TensorInfo& tensor) const {
    return file_.bytes().subspan(static_cast<std::size_t>(data_begin_bytes_ + tensor.begin_bytes),
                                 static_cast<std::size_t>(tensor.end_bytes - tensor.begin_bytes));
}

}  // namespace oomb::trainer
