#pragma once

#include <cstdint>
#include <filesystem>
#include <list>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "base/result.hpp"
#include "ctf/decode/trace_plans.hpp"
#include "ctf/model/trace_class.hpp"
#include "viewer/read/recorded_trace.hpp"

namespace leat::viewer {

// Something that is wrong with a trace.
struct Finding {
    std::filesystem::path file{};
    std::optional<std::uint64_t> offset{};  // bytes; none: it is about the whole file
    std::string what{};
};

// A stream's file as it was found.
struct CheckedFile {
    std::unique_ptr<RecordedFile> file;
    const ctf::DecodePlan* plan = nullptr;  // of all its packets; null: it has none
    std::vector<RecordedPacket> packets{};  // those that can be read, in the order of their begins
    std::uint64_t lost_bytes = 0;           // of no such packet
};

struct CheckedDirectory {
    std::filesystem::path path;
    std::string metadata_text{};  // TSDL, as far as it is whole
    ctf::TraceClass trace_class{};
    std::optional<ctf::TracePlans> plans{};
    std::vector<std::byte> packet_begin{};  // magic number and UUID; empty: packets do not have them
    CheckedDirectory* longest = nullptr;    // of its UUID: by what that declares all its packets are read
    std::vector<CheckedFile> files{};
};

// Reads all of trace directories, also behind what is damaged:
//
//     packet | packet | damaged ... | packet | cut short
//     whole    whole    lost          whole    lost
//
// After damage, a packet begins where the next magic number and the trace's UUID are.
class TraceCheck {
  public:
    // An error: nothing can be read, because no metadata says anything that makes sense.
    static Result<TraceCheck> run(const std::vector<std::filesystem::path>& directories);

    // Those whose metadata can be read.
    [[nodiscard]] const std::list<CheckedDirectory>& directories() const { return directories_; }
    // Of the packets that can be read.
    [[nodiscard]] std::uint64_t events() const { return events_; }
    [[nodiscard]] const std::vector<Finding>& findings() const { return findings_; }
    // Beyond so many they are counted, but not told.
    static constexpr std::size_t kMaxFindings = 10'000;
    [[nodiscard]] std::uint64_t finding_count() const { return finding_count_; }

  private:
    using BadPackets = std::set<std::pair<const RecordedFile*, std::uint64_t>>;  // with their offsets
    struct Stream {
        const ctf::TraceClass* trace_class;
        const ctf::DecodePlan* plan;
        std::vector<RecordedPacket> packets{};
    };

    TraceCheck() = default;

    Result<void> read_metadata(CheckedDirectory& directory);
    void find_longest_metadata();
    void check_file(CheckedDirectory& directory, const std::filesystem::path& path);
    // Returns where the next packet may begin.
    std::uint64_t check_packet(CheckedDirectory& directory, CheckedFile& checked, std::uint64_t offset);
    void put_in_order(CheckedFile& checked);
    void check_streams();
    [[nodiscard]] std::vector<Stream> streams() const;
    void check_stream(const Stream& stream, BadPackets& bad);
    void check_index(const CheckedFile& checked);
    void find(const std::filesystem::path& file, std::optional<std::uint64_t> offset, std::string what);

    std::list<CheckedDirectory> directories_{};  // they stay where they are: plans point to them
    std::uint64_t events_ = 0;
    std::vector<Finding> findings_{};
    std::uint64_t finding_count_ = 0;
};

}  // namespace leat::viewer
