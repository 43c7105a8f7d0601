#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/mapped_file.hpp"
#include "base/result.hpp"
#include "ctf/decode/trace_plans.hpp"
#include "ctf/model/trace_class.hpp"

namespace leat::viewer {

// Something that is wrong with a trace.
struct Finding {
    std::filesystem::path file{};
    std::optional<std::uint64_t> offset{};  // bytes; none: it is about the whole file
    std::string what{};
};

// A packet all of whose events can be read.
struct WholePacket {
    std::uint64_t offset = 0;
    std::uint64_t size = 0;  // bytes
    std::optional<std::int64_t> begin_ns{};
    std::optional<std::int64_t> end_ns{};
};

// A stream's file as it was found.
struct CheckedFile {
    std::filesystem::path path{};
    MappedFile mapping;
    std::vector<WholePacket> packets{};  // in the order of their times; none begins before the end of the one before
    std::uint64_t events = 0;            // of these packets
    std::uint64_t lost_bytes = 0;        // that no whole packet has
};

// Reads all of a trace directory, also behind what is damaged:
//
//     packet | packet | damaged ... | packet | cut short
//     whole    whole    lost          whole    lost
//
// After damage, a packet begins where the next magic number and the trace's UUID are.
class TraceCheck {
  public:
    // An error: nothing can be read, because the metadata says nothing that makes sense.
    static Result<std::unique_ptr<TraceCheck>> run(const std::filesystem::path& directory);

    [[nodiscard]] const std::filesystem::path& directory() const { return directory_; }
    // TSDL, as far as it is whole.
    [[nodiscard]] const std::string& metadata_text() const { return metadata_text_; }
    [[nodiscard]] const std::vector<CheckedFile>& files() const { return files_; }
    [[nodiscard]] const std::vector<Finding>& findings() const { return findings_; }
    // Beyond so many they are counted, but not told.
    static constexpr std::size_t kMaxFindings = 10'000;
    [[nodiscard]] std::uint64_t finding_count() const { return finding_count_; }

  private:
    explicit TraceCheck(std::filesystem::path directory) : directory_(std::move(directory)) {}

    Result<void> read_metadata();
    void check_file(const std::filesystem::path& path);
    // Returns where the next packet may begin.
    std::uint64_t check_packet(CheckedFile& file, std::uint64_t offset);
    [[nodiscard]] std::uint64_t next_packet(UntrustedBytes bytes, std::uint64_t offset) const;
    void put_in_order(CheckedFile& file);
    void check_index(const CheckedFile& file);
    void find(const std::filesystem::path& file, std::optional<std::uint64_t> offset, std::string what);

    std::filesystem::path directory_;
    std::string metadata_text_{};
    ctf::TraceClass trace_class_{};
    std::optional<ctf::TracePlans> plans_{};
    std::vector<std::byte> packet_begin_{};  // magic number and UUID; empty: packets do not have them
    std::vector<CheckedFile> files_{};
    std::vector<Finding> findings_{};
    std::uint64_t finding_count_ = 0;
};

}  // namespace leat::viewer
