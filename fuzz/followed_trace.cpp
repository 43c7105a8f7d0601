// A hostile trace directory that grows while it is followed. Its files are torn, cut, replaced, or wrong, in an order
// that no writer uses.
//
// Input: steps. Each has a file, what happens to it, and the bytes. The metadata are good until something is appended.
#include "viewer/read/followed_trace.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <cstdlib>
#include <filesystem>
#include <string>

#include "base/check.hpp"
#include "base/file.hpp"
#include "fuzz_input.hpp"
#include "support/byte_metadata.hpp"
#include "viewer/sink/text_sink.hpp"

namespace leat::fuzz::followed_trace {
namespace {

namespace fs = std::filesystem;
using viewer::Progress;

// A directory in memory. It is deleted when the fuzzer ends.
class ScratchPlace {
  public:
    ScratchPlace() { LEAT_CHECK(::mkdtemp(path_.data()) != nullptr); }
    ~ScratchPlace() { fs::remove_all(path_); }
    ScratchPlace(const ScratchPlace&) = delete;
    ScratchPlace& operator=(const ScratchPlace&) = delete;

    [[nodiscard]] fs::path path() const { return path_; }

  private:
    std::string path_ = "/dev/shm/leat-fuzz-XXXXXX";
};

enum FileName { kTraceMetadata, kFirstData, kFirstIndex, kSecondData, kSecondIndex, kSync, kFileNames };
constexpr std::array<const char*, kFileNames> kNames{"metadata", "c_0",           "index/c_0.idx",
                                                     "c_1",      "index/c_1.idx", trace::kSyncFileName};

// The directory and its writer. The destructor deletes the directory.
class GrowingTrace {
  public:
    explicit GrowingTrace(fs::path directory) : directory_(std::move(directory)) {
        fs::create_directories(directory_ / "index");
        directory_fd_ = UniqueFd(::open(directory_.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
        writer_ = *trace::SyncWriter::create(directory_fd_.get());
        for (const FileName file : {kTraceMetadata, kFirstData, kFirstIndex, kSecondData, kSecondIndex})
            append(file, {});
        append(kTraceMetadata, std::as_bytes(std::span(test::kByteMetadata)));
        append(kFirstIndex, trace::encode_index_header());
        append(kSecondIndex, trace::encode_index_header(0));
    }
    ~GrowingTrace() { fs::remove_all(directory_); }
    GrowingTrace(const GrowingTrace&) = delete;
    GrowingTrace& operator=(const GrowingTrace&) = delete;

    void append(FileName file, UntrustedBytes bytes) {
        const UniqueFd fd(
            ::openat(directory_fd_.get(), kNames.at(file), O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0600));
        LEAT_CHECK(write_all(fd.get(), bytes).has_value());
    }
    void cut(FileName file, std::uint64_t size) {
        std::error_code ignored;
        if (fs::file_size(directory_ / kNames.at(file), ignored) > size)
            fs::resize_file(directory_ / kNames.at(file), size, ignored);
    }
    // Puts another, empty file of that name in its place.
    void replace(FileName file) {
        std::error_code ignored;
        fs::remove(directory_ / kNames.at(file), ignored);
        append(file, {});
    }
    // Appends a packet to the first file, and an index entry that may be wrong.
    void append_packet(UntrustedBytes packet, std::uint8_t is_lost, std::uint8_t lie) {
        ctf::IndexEntry entry{.offset = fs::file_size(directory_ / "c_0") + lie, .packet_size = 8 * packet.size()};
        if (lie % 2 == 0) entry.stream_instance_id = 1;
        entry.packet_seq_num = next_packet_++;
        if (is_lost != 0) entry.offset = ctf::IndexEntry::kLostOffset;
        append(kFirstData, packet);
        append(kFirstIndex, trace::encode_index_entry(entry));
    }
    void publish(std::uint64_t horizon) { (void)writer_->publish(horizon, 0); }
    void end() { writer_.reset(); }

  private:
    fs::path directory_;
    UniqueFd directory_fd_;
    std::optional<trace::SyncWriter> writer_;
    std::uint64_t next_packet_ = 0;
};

// Follows the directory as `leat view --follow` does.
class Follower {
  public:
    explicit Follower(const fs::path& directory) : sink_({}, std::nullopt, null(), null()) {
        auto opened = viewer::FollowedTrace::open(directory, 0, merge_, [](const std::string&) {});
        LEAT_CHECK(opened && opened->trace != nullptr);
        trace_ = std::move(opened->trace);
    }

    void advance() {
        if (has_ended_) return;
        const auto progress = trace_->advance();
        has_ended_ = !progress || *progress == Progress::kEnded;
        print();
    }
    // Called when the writer is gone: following must come to an end.
    void finish() {
        constexpr int kMoreTurnsThanSteps = 1 << 16;
        for (int i = 0; !has_ended_; ++i) {
            LEAT_CHECK(i < kMoreTurnsThanSteps);
            advance();
        }
    }

  private:
    static int null() {
        static const int fd = ::open("/dev/null", O_WRONLY | O_CLOEXEC);
        return fd;
    }
    void print() {
        while (true) {
            const auto is_message = merge_.next();
            if (!is_message) continue;  // an error ends only its stream
            if (!*is_message) break;
            LEAT_CHECK(sink_.consume(merge_.message()).has_value());
        }
        (void)sink_.flush();
    }

    viewer::LiveMerge merge_;
    viewer::TextSink sink_;
    std::unique_ptr<viewer::FollowedTrace> trace_;
    bool has_ended_ = false;
};

void run(FuzzInput input) {
    static const ScratchPlace place;
    GrowingTrace trace(place.path() / "trace");
    Follower follower(place.path() / "trace");
    while (!input.is_empty()) {
        const auto step = input.take<std::uint8_t>();
        const auto file = static_cast<FileName>(step / 8 % kFileNames);
        switch (step % 8) {
            case 0:
                trace.append(file, input.take_bytes(input.take<std::uint8_t>()));
                break;
            case 1:
                trace.cut(file, input.take<std::uint16_t>());
                break;
            case 2:
                trace.publish(input.take<std::uint8_t>());
                break;
            case 3:
                trace.publish(input.take<std::uint64_t>());
                break;
            case 4:
            case 5: {
                const auto size = input.take<std::uint8_t>();
                trace.append_packet(input.take_bytes(size % 64), size & 0x80U, step > 240 ? step : 0);
                break;
            }
            case 6: {
                if (file == kSync) break;
                trace.replace(file);
                if (file == kFirstIndex || file == kSecondIndex) trace.append(file, trace::encode_index_header());
                break;
            }
            default:
                follower.advance();
        }
    }
    trace.end();
    follower.finish();
}

}  // namespace

LEAT_FUZZ_TARGET(followed_trace) {
    run(FuzzInput(data, size));
    return 0;
}

}  // namespace leat::fuzz::followed_trace
