#include "simulator/cli/machine_facts.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <fstream>
#include <iterator>
#include <set>
#include <vector>

namespace oomb::simulator {
namespace {

namespace fs = std::filesystem;

std::string first_line(const fs::path& path) {
    std::ifstream file(path);
    std::string line;
    std::getline(file, line);
    return line;
}

// Of "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  580.159.04  Release Build ...": the word that begins
// with a digit and has a point in it.
std::string driver_version(const std::string& line) {
    for (std::size_t at = 0; at < line.size();) {
        const std::size_t begin = line.find_first_not_of(' ', at);
        if (begin == std::string::npos) {
            break;
        }
        const std::size_t end = std::min(line.find(' ', begin), line.size());
        const std::string word = line.substr(begin, end - begin);
        if (word[0] >= '0' && word[0] <= '9' && word.find('.') != std::string::npos) {
            return word;
        }
        at = end;
    }
    return {};
}

std::vector<fs::path> entries_of(const fs::path& folder) {
    std::error_code error;
    std::vector<fs::path> entries;
    for (const fs::directory_entry& entry : fs::directory_iterator(folder, error)) {
        entries.push_back(entry.path());
    }
    std::ranges::sort(entries);
    return entries;
}

}  // namespace

std::string machine_facts(const fs::path& root) {
    std::string facts;
    const auto add = [&](const std::string& fact) { facts += (facts.empty() ? "" : ", ") + fact; };
    if (const std::string version = driver_version(first_line(root / "proc/driver/nvidia/version")); !version.empty()) {
        add("NVIDIA driver " + version);
    }
    std::set<std::string> gpu_nodes;
    for (const fs::path& gpu : entries_of(root / "proc/driver/nvidia/gpus")) {
        const std::string node = first_line(root / "sys/bus/pci/devices" / gpu.filename() / "numa_node");
        if (!node.empty() && node[0] != '-') {
            gpu_nodes.insert(node);
        }
    }
    for (const std::string& node : gpu_nodes) {
        add("GPU on NUMA node " + node);
    }
    const auto entries = entries_of(root / "sys/devices/system/node");
    const auto nodes = std::ranges::count_if(entries, [](const fs::path& entry) {
        const std::string name = entry.filename().string();
        return name.size() > 4 && name.starts_with("node") && name[4] >= '0' && name[4] <= '9';
    });
    if (nodes > 0) {
        add(fmt::format("{} NUMA node{}", nodes, nodes == 1 ? "" : "s"));
    }
    return facts;
}

}  // namespace oomb::simulator
