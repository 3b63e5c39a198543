#include "trainer/run/gradient_file.hpp"

#include <limits>

#include "trainer/weights/shard_plan.hpp"

namespace oomb::trainer {

void write_gradients(Backend& backend, const std::filesystem::path& path) {
    const auto& parameters = backend.layout().parameters();
    std::vector<StoredTensor> tensors;
    std::map<std::string, std::size_t> by_name;
    for (std::size_t i = 0; i < parameters.size(); ++i) {
        tensors.push_back({parameters[i].name, parameters[i].shape, backend.gradient(i).dtype});
        by_name[parameters[i].name] = i;
    }
    const Shard file = plan_shards(tensors, std::numeric_limits<std::int64_t>::max()).front();
    const std::filesystem::path partial = path.string() + ".partial";
    const FileCalls calls = FileCalls::system();
    std::filesystem::remove(partial);
    OutputFile output(partial, calls);
    output.write(file.header);
    for (const StoredTensor& tensor : file.tensors) {
        output.write(backend.gradient(by_name.at(tensor.name)).bytes);
    }
    output.close();
    rename_to_new(partial, path);
}

}  // namespace oomb::trainer
