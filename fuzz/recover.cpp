// Files of one trace whose recorder was killed, of which the input changes some bytes: `leat recover` makes a trace, or
// says what is wrong, and the files stay as they are.
#include <filesystem>
#include <fstream>
#include <map>
#include <string>
#include <vector>

#include "base/check.hpp"
#include "fuzz_input.hpp"
#include "host/recovery.hpp"
#include "support/left_files.hpp"

namespace leat::fuzz {
namespace {

const std::vector<std::string> kFiles{"trace.json", "registry", "metadata", "progress", "channel0.rings"};
constexpr std::uint64_t kRecords = 2000;

class Files {
  public:
    explicit Files(bool overwrites) : left_(kRecords, overwrites) { left_.leave(); }

    void change(const std::string& name, std::uint64_t offset, UntrustedBytes bytes) {
        std::string text(bytes.size(), '\0');
        std::memcpy(text.data(), bytes.data(), bytes.size());
        std::string before(text.size(), '\0');
        std::ifstream in(left_.file(name), std::ios::binary);
        in.seekg(static_cast<std::streamoff>(offset)).read(before.data(), static_cast<std::streamsize>(before.size()));
        before.resize(static_cast<std::size_t>(std::max<std::streamsize>(in.gcount(), 0)));
        changes_.push_back({name, offset, before});
        left_.change(name, offset, text.substr(0, before.size()));
    }

    void run() {
        const auto output = left_.scratch() / "recovered";
        const auto session = host::LeftSession::find(left_.of_session());
        if (session) {
            const auto recovered = session->store_in(output);
            LEAT_CHECK(recovered && recovered->traces.size() + recovered->errors.size() == 1);
            for (const auto& trace : recovered->traces) LEAT_CHECK(trace.events <= 64 * kRecords);
        }
        std::filesystem::remove_all(output);
        for (; !changes_.empty(); changes_.pop_back())
            left_.change(changes_.back().name, changes_.back().offset, changes_.back().before);
    }

  private:
    struct Change {
        std::string name;
        std::uint64_t offset;
        std::string before;
    };
    test::LeftFiles left_;
    std::vector<Change> changes_;
};

// Of what lies behind the first ring, nothing is read.
std::uint64_t size_of(std::size_t file) {
    constexpr std::array<std::uint64_t, 5> kSizes{1000, 8000, 8000, 20'000, 3 * ring::kMinRingSize};
    return kSizes.at(file);
}

}  // namespace

LEAT_FUZZ_TARGET(recover) {
    static Files discarding(false);
    static Files overwriting(true);
    FuzzInput input(data, size);
    Files& files = input.take<std::uint8_t>() % 2 == 0 ? discarding : overwriting;
    for (int change = 0; change < 16 && !input.is_empty(); ++change) {
        const std::size_t file = input.take<std::uint8_t>() % kFiles.size();
        const std::uint64_t offset = input.take<std::uint32_t>() % size_of(file);
        files.change(kFiles[file], offset, input.take_bytes(input.take<std::uint8_t>()));
    }
    files.run();
    return 0;
}

}  // namespace leat::fuzz
