#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <list>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/result.hpp"
#include "ctf/decode/trace_plans.hpp"
#include "ctf/model/trace_class.hpp"
#include "trace/trace_directories.hpp"
#include "viewer/check/check_progress.hpp"
#include "viewer/check/finding.hpp"
#include "viewer/check/index_check.hpp"
#include "viewer/check/stream_check.hpp"
#include "viewer/read/recorded_trace.hpp"

namespace leat::viewer {

// A stream's file as it was found.
struct CheckedFile {
    std::unique_ptr<RecordedFile> file;
    IndexCheck index;
    const ctf::DecodePlan* plan = nullptr;  // of all its packets; null: it has none
    std::vector<RecordedPacket> packets{};  // those that can be read, in the order of their begins

    // Of no such packet.
    [[nodiscard]] std::uint64_t lost_bytes() const {
        std::uint64_t bytes = file->mapping.bytes().size();
        for (const RecordedPacket& packet : packets) bytes -= packet.properties.packet_size;
        return bytes;
    }
};

// Metadata that can be read.
struct CheckedMetadata {
    std::filesystem::path file;
    std::string text;  // TSDL, as far as it is whole
    ctf::TraceClass trace_class;
    std::optional<ctf::TracePlans> plans{};
    std::vector<std::byte> packet_begin{};  // magic number and UUID; empty: packets do not have them
};

struct CheckedDirectory {
    std::filesystem::path path;
    std::unique_ptr<CheckedMetadata> own_metadata{};  // null: it cannot be read
    CheckedMetadata* metadata = nullptr;              // by what that declares its packets are read; null: nothing does
    std::vector<CheckedFile> files{};
};

// Reads all of trace directories, also behind what is damaged, and says what is wrong, for one who views them together.
class TraceCheck {
  public:
    // Reads all files twice: packets are sought, then streams are read as viewers do it. Directories that are named
    // more than once count once.
    static constexpr unsigned kPasses = 2;
    // An error: this process cannot have so many files or mappings.
    static Result<TraceCheck> run(const trace::TraceDirectories& directories, CheckProgress& progress);

    [[nodiscard]] const std::list<CheckedDirectory>& directories() const { return directories_; }
    [[nodiscard]] const Findings& findings() const { return findings_; }
    // What can be read. What is in several directories counts once.
    [[nodiscard]] std::uint64_t packets() const { return packets_; }
    [[nodiscard]] std::uint64_t events() const { return events_; }
    // Of no packet that can be read.
    [[nodiscard]] std::uint64_t lost_bytes() const;

  private:
    // What the files of a directory hold, if read by some metadata.
    struct FoundPackets {
        struct OfFile {
            const ctf::DecodePlan* plan;
            std::vector<RecordedPacket> packets;
        };
        std::vector<OfFile> files{};
        Findings findings{};
        std::uint64_t bytes = 0;  // of all packets
    };
    struct Stream {
        const ctf::TraceClass* trace_class;
        const ctf::DecodePlan* plan;
        std::vector<RecordedPacket> packets{};
    };

    TraceCheck() = default;

    void read_metadata(CheckedDirectory& directory);
    Result<std::unique_ptr<CheckedMetadata>> parse_metadata(const std::filesystem::path& path);
    void choose_metadata();
    void open_files(CheckedDirectory& directory);
    [[nodiscard]] std::uint64_t opened_bytes() const;
    void find_packets(CheckedDirectory& directory, CheckProgress& progress);
    static FoundPackets find_packets(const CheckedDirectory& directory, CheckedMetadata& metadata,
                                     CheckProgress& progress);
    [[nodiscard]] std::vector<CheckedMetadata*> other_metadata(const CheckedDirectory& directory) const;
    [[nodiscard]] std::vector<Stream> streams() const;
    void check_streams(CheckProgress& progress);
    void check_clocks(const std::vector<Stream>& streams);
    void check_indexes();
    void check_for_lost_files(const CheckedDirectory& directory);

    std::list<CheckedDirectory> directories_{};
    std::uint64_t unopened_bytes_ = 0;  // of files that cannot be opened
    std::uint64_t packets_ = 0;
    std::uint64_t events_ = 0;
    Findings findings_{};
    std::optional<Error> failure_{};  // of this process
};

}  // namespace leat::viewer
