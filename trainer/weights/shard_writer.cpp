#include "trainer/weights/shard_writer.hpp"

#include <algorithm>
#include <vector>

#include "runtime/core/error.hpp"
#include "trainer/weights/convert.hpp"

namespace oomb::trainer {
namespace {

constexpr std::int64_t kBlockElements = std::int64_t{1} << 20;

void write_tensor(OutputFile& file, const StoredTensor& tensor, const TensorValues& values) {
    const std::int64_t from_bytes = bytes_of(values.dtype);
    const std::int64_t to_bytes = bytes_of(tensor.dtype);
    const std::int64_t elements = tensor.bytes() / to_bytes;
    require(static_cast<std::int64_t>(values.bytes.size()) == elements * from_bytes,
            "tensor {}: given {} bytes for {} elements of {}", tensor.name, values.bytes.size(), elements,
            name_of(values.dtype));
    std::vector<std::byte> block(static_cast<std::size_t>(std::min(elements, kBlockElements) * to_bytes));
    for (std::int64_t begin = 0; begin < elements; begin += kBlockElements) {
        const std::int64_t count = std::min(kBlockElements, elements - begin);
        const auto source = values.bytes.subspan(static_cast<std::size_t>(begin * from_bytes),
                                                 static_cast<std::size_t>(count * from_bytes));
        const std::span<std::byte> target(block.data(), static_cast<std::size_t>(count * to_bytes));
        const std::int64_t overflows = convert_bytes(source, values.dtype, target, tensor.dtype);
        if (overflows > 0) {
            fail<NumericError>("tensor {}: {} values are too large for {}, the type it is stored in", tensor.name,
                               overflows, name_of(tensor.dtype));
        }
        file.write(target);
    }
}

}  // namespace

void write_shard(const std::filesystem::path& folder, const Shard& shard, const ValuesOf& values_of,
                 const FileCalls& calls) {
    OutputFile file(folder / shard.file_name, calls);
    file.write(shard.header);
    for (const StoredTensor& tensor : shard.tensors) {
        write_tensor(file, tensor, values_of(tensor));
    }
    file.close();
}

void write_new_text(const std::filesystem::path& path, std::string_view text, const FileCalls& calls) {
    OutputFile file(path, calls);
    file.write(text);
    file.close();
}

}  // namespace oomb::trainer
