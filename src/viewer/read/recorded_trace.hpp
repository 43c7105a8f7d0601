#pragma once

#include <sys/types.h>

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <list>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <tuple>
#include <vector>

#include "base/mapped_file.hpp"
#include "base/result.hpp"
#include "ctf/decode/packet_decoder.hpp"
#include "ctf/decode/trace_plans.hpp"
#include "ctf/model/clock.hpp"
#include "ctf/model/trace_class.hpp"
#include "viewer/merge/message.hpp"
#include "viewer/read/lost_packets.hpp"

namespace leat::viewer {

struct RecordedFile {
    std::filesystem::path path;
    MappedFile mapping;  // without the bytes that are still being written
    dev_t device;
    ino_t inode;
};

struct RecordedPacket {
    const RecordedFile* file;
    std::uint64_t offset;  // bytes from the start of the file
    ctf::PacketProperties properties;
};

// A file that others have made shorter while it was read.
tl::unexpected<Error> became_shorter(const RecordedFile& file);

// Whether another file has its path by now.
bool is_replaced(const RecordedFile& file);

// Whoever replaces a file and its index, one after the other, is done by then, or nearly always.
inline constexpr std::chrono::milliseconds kReplacing{100};

// The packets of one ring, oldest first, from any number of files.
struct RecordedStream : StreamIdentity {
    const ctf::DecodePlan* plan = nullptr;  // a packet without an instance id belongs to a stream of its own file
    std::vector<RecordedPacket> packets{};
};

// Files by path. A file that cannot be opened counts as damage; the others are read anyway.
using OpenedFiles = std::map<std::string, Result<std::unique_ptr<RecordedFile>>>;

// Opens a stream's file, as far as it is written.
Result<std::unique_ptr<RecordedFile>> open_stream_file(const std::filesystem::path& path);

// Packets of one key are of one stream. The file tells those without an instance id apart.
using StreamKey = std::tuple<const ctf::DecodePlan*, std::optional<std::uint64_t>, const RecordedFile*>;
StreamKey stream_key(const ctf::DecodePlan& plan, const ctf::PacketProperties& properties, const RecordedFile& file);

// Oldest first. Those that are twins are neighbours then.
void sort_packets(std::vector<RecordedPacket>& packets);
// Whether they are one packet, which was written to two files.
bool are_twins(const RecordedPacket& left, const RecordedPacket& right);

// A directory whose files are open and whose metadata is read.
struct RecordedDirectory {
    std::filesystem::path path;
    OpenedFiles files;
    ctf::TraceClass trace_class;
    std::string path_below{};  // the directory that is viewed; empty: that itself
};

// A trace as it lies on disk: one directory, or several of the same UUID (the chunks of a rotated session, snapshots)
// whose metadata declare the same as those that declare most, or less.
class RecordedTrace {
  public:
    // Reads the headers of all packets. A damaged file is used up to the damage: see damage(). If has_suspects(), call
    // look_again() later.
    static Result<std::unique_ptr<RecordedTrace>> open(std::list<RecordedDirectory> directories,
                                                       std::uint64_t trace_number);

    RecordedTrace(const RecordedTrace&) = delete;
    RecordedTrace& operator=(const RecordedTrace&) = delete;

    [[nodiscard]] const ctf::TraceClass& trace_class() const { return trace_class_; }
    [[nodiscard]] const std::vector<RecordedStream>& streams() const { return streams_; }
    // Whether files seem to have been cut off. They may be about to be replaced (kReplacing).
    [[nodiscard]] bool has_suspects() const { return !suspects_.empty(); }
    // Those that still are as they were then were cut off.
    void look_again();
    // The first thing that cannot be read, with its file and offset; or a file that has become shorter by now.
    [[nodiscard]] std::optional<Error> damage() const;

  private:
    RecordedTrace(ctf::TraceClass trace_class, std::uint64_t trace_number)
        : trace_class_(std::move(trace_class)), trace_number_(trace_number) {}

    void add_files(OpenedFiles files);
    Result<void> scan(const RecordedFile& file);
    std::size_t stream_of(const ctf::DecodePlan& plan, const ctf::PacketProperties& properties,
                          const RecordedFile& file);
    void note_damage(Error error);
    void put_in_order();
    void number_streams();

    ctf::TraceClass trace_class_;
    std::uint64_t trace_number_;
    std::string path_;  // below the directory that is viewed, if it is in one directory
    std::optional<ctf::TracePlans> plans_;
    std::vector<std::unique_ptr<RecordedFile>> files_;
    std::vector<RecordedStream> streams_;
    std::map<StreamKey, std::size_t> stream_by_key_;  // index into streams_ until these are sorted
    struct Suspect {
        const RecordedFile* file;
        LostPackets::IndexState index;
    };
    std::vector<Suspect> suspects_;
    std::optional<Error> damage_;
};

using RecordedTraces = std::vector<std::unique_ptr<RecordedTrace>>;

// Opens all traces at or below the paths, each directory once. See choose_metadata() for which become one trace. Passes
// over directories that may not be read, and adds them to `denied`, if that is given; an error if no trace is left.
// `shift`: of the clocks of all.
Result<RecordedTraces> open_traces(const std::vector<std::filesystem::path>& paths,
                                   std::vector<std::filesystem::path>* denied = nullptr,
                                   const ctf::ClockShift& shift = {});

// Of each trace.
[[nodiscard]] std::vector<const ctf::TraceClass*> classes_of(const RecordedTraces& traces);

// An error: why the first of these directories cannot be read.
Result<void> first_denied(std::span<const std::filesystem::path> denied);

// An error: the first of them that is damaged. To be asked when all was read.
Result<void> first_damage(const RecordedTraces& traces);

}  // namespace leat::viewer
