// fuzz-replay TARGET DIRECTORY: runs a fuzz target on each file of its corpus, for builds without libFuzzer.
#include <algorithm>
#include <array>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string_view>
#include <vector>

// Each LEAT_FUZZ_TARGET().
#define LEAT_TARGET(name) extern "C" int leat_fuzz_##name(const std::uint8_t* data, std::size_t size);
#include "targets.inc"
#undef LEAT_TARGET

namespace {

namespace fs = std::filesystem;

struct Target {
    std::string_view name;
    int (*run)(const std::uint8_t* data, std::size_t size);
};
#define LEAT_TARGET(name) Target{#name, leat_fuzz_##name},
constexpr std::array kTargets{
#include "targets.inc"
};
#undef LEAT_TARGET

// A smaller corpus proves nothing.
constexpr std::size_t kFewest = 3;

std::vector<fs::path> files_of(const fs::path& directory) {
    std::vector<fs::path> files;
    for (const fs::directory_entry& entry : fs::directory_iterator(directory))
        if (entry.is_regular_file()) files.push_back(entry.path());
    std::ranges::sort(files);
    return files;
}

int replay(const Target& target, const fs::path& directory) {
    const std::vector<fs::path> files = files_of(directory);
    for (const fs::path& path : files) {
        std::printf("%s\n", path.filename().c_str());
        std::fflush(stdout);  // so that the input is named if the program dies here
        std::ifstream file(path, std::ios::binary);
        const std::vector<char> bytes{std::istreambuf_iterator<char>(file), {}};
        target.run(reinterpret_cast<const std::uint8_t*>(bytes.data()), bytes.size());
    }
    if (files.size() >= kFewest) return 0;
    std::fprintf(stderr, "%zu inputs, %zu at least are wanted\n", files.size(), kFewest);
    return 1;
}

}  // namespace

int main(int argc, char** argv) {
    if (argc != 3) return 2;
    const auto* const target = std::ranges::find(kTargets, std::string_view(argv[1]), &Target::name);
    if (target == kTargets.end()) return 2;
    return replay(*target, argv[2]);
}
