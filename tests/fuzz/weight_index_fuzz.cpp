// model.safetensors.index.json of a folder with two shards.
#include "tests/fuzz/target.hpp"
#include "trainer/weights/weight_folder.hpp"

namespace {

// 8 bytes of header length, the header, 4 bytes of data: a tensor of this name.
std::string shard(const std::string& tensor) {
    std::string header = R"({")" + tensor + R"(":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}})";
    header.resize((header.size() + 7) / 8 * 8, ' ');
    std::string file(8, '\0');
    file[0] = static_cast<char>(header.size());
    return file + header + std::string(4, '\0');
}

std::filesystem::path folder_of_shards() {
    const std::filesystem::path folder = oomb::fuzz::as_file(nullptr, 0, ".none").parent_path() / "shards";
    std::filesystem::create_directories(folder);
    std::ofstream(folder / "shard-1.safetensors", std::ios::binary) << shard("a");
    std::ofstream(folder / "shard-2.safetensors", std::ios::binary) << shard("b");
    return folder;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    static const std::filesystem::path kFolder = folder_of_shards();
    std::ofstream(kFolder / oomb::trainer::kIndexFileName, std::ios::binary) << oomb::fuzz::text_of(data, size);
    return oomb::fuzz::refuses_or_accepts([&] { oomb::trainer::WeightFolder::open(kFolder).list(); });
}
