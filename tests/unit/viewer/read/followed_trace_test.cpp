#include "viewer/read/followed_trace.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <optional>
#include <string>
#include <string_view>

#include "base/check.hpp"
#include "support/byte_metadata.hpp"
#include "support/descriptor_limit.hpp"
#include "trace/index_format.hpp"
#include "trace/moving_lock.hpp"

namespace leat::viewer {
namespace {

namespace fs = std::filesystem;

std::string_view text_of(UntrustedBytes bytes) { return {reinterpret_cast<const char*>(bytes.data()), bytes.size()}; }

// Writes a directory like a relay whose files are limited in size and count: it unlinks the oldest file, then writes a
// new one of that name. Packet n has one event, at second n.
class RollingWriter {
  public:
    explicit RollingWriter(fs::path directory, std::uint64_t horizon = 0) : directory_(std::move(directory)) {
        fs::create_directories(directory_ / "index");
        append("metadata", metadata());
        directory_fd_ = UniqueFd(::open(directory_.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
        sync_ = *trace::SyncWriter::create(directory_fd_.get(), horizon);
    }

    // The next packets go into this file.
    void roll(const std::string& name, std::uint32_t index_minor = trace::kIndexMinor) {
        name_ = name;
        offset_ = 0;
        entry_size_ = index_minor == 0 ? trace::kIndexEntrySize10 : trace::kIndexEntrySize;
        fs::remove(index());
        append(index(), text_of(trace::encode_index_header(index_minor)));
        fs::remove(name_);
        append(name_, "");
    }
    void packet(char number, char instance = 7) {
        add({instance, 7 * 8, number, 5, number, number, number}, number, instance);
    }
    void empty_packet(char number, char instance = 7) {
        add({instance, 6 * 8, number, 5, number, number}, number, instance);
    }
    void add(const std::string& bytes, char number, char instance) {
        append(name_, bytes);
        entry({.offset = offset_,
               .packet_size = 8 * bytes.size(),
               .stream_instance_id = static_cast<std::uint64_t>(instance),
               .packet_seq_num = static_cast<std::uint64_t>(number)});
        offset_ += bytes.size();
        last_ = number;
    }
    void entry(const ctf::IndexEntry& entry) {
        append(index(), text_of(trace::encode_index_entry(entry)).substr(0, entry_size_));
    }
    void publish() { publish(last_); }
    void publish(char horizon) {
        LEAT_CHECK(sync_->publish(static_cast<std::uint64_t>(horizon), metadata().size()).has_value());
    }
    void end() { sync_.reset(); }

    // The declaration of the event is still to come.
    void cut_metadata() const { fs::resize_file(directory_ / "metadata", metadata().find("event { name")); }
    void hold_metadata() const { fs::resize_file(directory_ / "metadata", metadata().find("clock {") + 1); }
    void give_metadata() const { append("metadata", metadata().substr(metadata().find("clock {") + 1)); }
    void spoil_metadata() const { append("metadata", "nonsense;"); }
    void break_metadata() const {
        fs::resize_file(directory_ / "metadata", 0);
        append("metadata", test::kUnreadableMetadata);
    }
    // As a whole, in a new file, and with another clock.
    void write_metadata_again() const {
        append(".metadata.new", metadata().replace(metadata().find("freq = 1"), 8, "freq = 2"));
        fs::rename(directory_ / ".metadata.new", directory_ / "metadata");
    }

    [[nodiscard]] std::string index() const { return "index/" + name_ + ".idx"; }
    void remove(const std::string& name) const { fs::remove(directory_ / name); }

  private:
    static std::string metadata() { return test::numbered_byte_metadata(" integer { size = 8; } events_discarded;"); }
    void append(const std::string& name, std::string_view bytes) const {
        std::ofstream(directory_ / name, std::ios::binary | std::ios::app) << bytes;
    }

    fs::path directory_;
    UniqueFd directory_fd_;
    std::optional<trace::SyncWriter> sync_;
    std::string name_;
    std::size_t entry_size_ = 0;
    std::uint64_t offset_ = 0;
    char last_ = 0;
};

class FollowedTraceTest : public testing::Test {
  protected:
    FollowedTraceTest()
        : root_(fs::temp_directory_path() / fmt::format("leat-followed-trace-{}", ::getpid())), writer_(clean(root_)) {
        fs::current_path(root_);
        open(false);
    }
    ~FollowedTraceTest() override {
        fs::current_path("/");
        fs::remove_all(root_);
    }

    void open(bool has_begun_since) {
        trace_.reset();
        trace_ = opened(root_, 0, has_begun_since);
    }
    std::unique_ptr<FollowedTrace> opened(const fs::path& directory, std::uint64_t number, bool has_begun_since) {
        const auto warn = [this](const std::string& text) { told_ += text + "; "; };
        auto opened = FollowedTrace::open(directory, number, merge_, warn, has_begun_since);
        LEAT_CHECK(opened && opened->trace != nullptr);
        return std::move(opened->trace);
    }

    // Reads until there is nothing new. Returns the seconds of the events, and the losses.
    std::string read() { return read(*trace_); }
    std::string read(FollowedTrace& trace) {
        told_.clear();
        while (true) {
            const auto progress = trace.advance();
            if (!progress) return told_ + progress.error().message;
            while (true) {
                const auto is_message = merge_.next();
                if (!is_message) told_ += is_message.error().message;
                if (!is_message || !*is_message) break;
                tell(merge_.message());
            }
            if (*progress == Progress::kEnded) return told_ + "end";
            if (*progress == Progress::kNothingNew) return told_;
        }
    }

    [[nodiscard]] std::uint64_t cut_short() const { return trace_->cut_short(); }

    fs::path root_;
    RollingWriter writer_;
    LiveMerge merge_;
    std::unique_ptr<FollowedTrace> trace_;

  private:
    static fs::path clean(const fs::path& path) {
        fs::remove_all(path);
        fs::create_directories(path);
        fs::current_path(path);
        return path;
    }
    void tell(const Message& message) {
        const std::uint64_t count = message.loss.count.value_or(0);
        if (message.kind == Message::Kind::kEvent) told_ += fmt::format("{} ", *message.time_ns / 1'000'000'000);
        if (message.kind == Message::Kind::kDiscardedEvents) told_ += fmt::format("events discarded: {} ", count);
        if (message.kind == Message::Kind::kDiscardedPackets) told_ += fmt::format("packets discarded: {} ", count);
        if (message.kind == Message::Kind::kMissedPackets) told_ += fmt::format("missed: {} ", count);
    }

    std::string told_;
};

TEST_F(FollowedTraceTest, RolledFilesAreOneStream) {
    writer_.roll("c_0_0");
    writer_.packet(1);
    writer_.publish();
    // The tracer discarded them before the stream began. This is told once, not once for each file.
    EXPECT_EQ(read(), "events discarded: 0 1 ");
    for (char number = 2; number < 12; ++number) {
        writer_.roll(fmt::format("c_0_{}", (number - 1) % 3));
        writer_.packet(number);
        writer_.publish();
        EXPECT_EQ(read(), fmt::format("{} ", static_cast<int>(number)));
    }
    writer_.end();
    EXPECT_EQ(read(), "end");
}

TEST_F(FollowedTraceTest, MetadataThatIsWrittenAgainGoesOnInTheNewFile) {
    writer_.cut_metadata();
    writer_.roll("c_0_0");
    writer_.empty_packet(1);
    writer_.publish();
    EXPECT_EQ(read(), "events discarded: 0 ");
    writer_.write_metadata_again();
    writer_.packet(2);
    writer_.publish();
    EXPECT_EQ(read(), "2 ");
    writer_.end();
    EXPECT_EQ(read(), "end");
}

TEST_F(FollowedTraceTest, MetadataThatCannotBeReadEndsEachStreamWithTheReason) {
    writer_.break_metadata();
    writer_.roll("c_0_0");
    writer_.packet(1);
    writer_.roll("d_0_0");
    writer_.packet(1, 9);
    writer_.publish();
    const std::string told = read();
    EXPECT_NE(told.find((root_ / "c_0_0").string() + ": metadata: line 1: "), std::string::npos) << told;
    EXPECT_NE(told.find((root_ / "d_0_0").string() + ": metadata: line 1: "), std::string::npos) << told;
}

TEST_F(FollowedTraceTest, LaterDeclarationThatCannotBeReadEndsNobody) {
    writer_.roll("c_0_0");
    writer_.packet(1);
    writer_.publish();
    EXPECT_EQ(read().find("metadata"), std::string::npos);
    writer_.spoil_metadata();
    writer_.packet(2);
    writer_.publish();
    const std::string told = read();
    EXPECT_TRUE(told.starts_with(root_.string() + ": metadata: line 1: ")) << told;
    EXPECT_TRUE(told.ends_with(" is not shown; 2 ")) << told;
    writer_.packet(3);
    writer_.publish();
    EXPECT_EQ(read(), "3 ");
}

TEST_F(FollowedTraceTest, DirectoryThatIsMovedIsReadToItsEnd) {
    writer_.roll("c_0_0");
    writer_.packet(1);
    writer_.publish();
    EXPECT_EQ(read(), "events discarded: 0 1 ");
    writer_.packet(2);
    writer_.roll("c_0_1");
    writer_.packet(3);
    writer_.end();
    const fs::path archived = root_.string() + "-archived";
    fs::rename(root_, archived);
    EXPECT_EQ(read(), "2 3 end");
    fs::rename(archived, root_);
}

TEST_F(FollowedTraceTest, DirectoryThatIsRemovedEnds) {
    writer_.roll("c_0_0");
    writer_.packet(1);
    writer_.publish();
    EXPECT_EQ(read(), "events discarded: 0 1 ");
    writer_.end();
    fs::remove_all(root_);
    EXPECT_EQ(read(), "end");
}

TEST_F(FollowedTraceTest, PacketsOfReplacedFilesAreMissedAndCounted) {
    writer_.roll("c_0_0");
    writer_.packet(1);
    writer_.publish();
    EXPECT_EQ(read(), "events discarded: 0 1 ");
    writer_.packet(2);  // in the file that the follower holds
    for (char number = 3; number < 20; ++number) {
        writer_.roll(fmt::format("c_0_{}", (number - 2) % 3));
        writer_.packet(number);
    }
    writer_.publish();
    EXPECT_EQ(read(), "2 missed: 14 17 18 19 ");
    writer_.end();
    EXPECT_EQ(read(), "end");
}

TEST_F(FollowedTraceTest, WhoComesLateBeginsWithTheOldestFile) {
    for (char number = 1; number < 6; ++number) {
        writer_.roll(fmt::format("c_0_{}", (number - 1) % 3));
        writer_.packet(number);
    }
    writer_.publish();
    EXPECT_EQ(read(), "events discarded: 0 3 4 5 ");
    writer_.end();
    EXPECT_EQ(read(), "end");
}

TEST_F(FollowedTraceTest, StreamThatHasLostItsBeginningMeanwhileIsNamed) {
    writer_.roll("d_0_0");
    writer_.packet(1, 9);
    writer_.publish();
    EXPECT_EQ(read(), "events discarded: 0 1 ");
    for (char number = 1; number < 6; ++number) {
        writer_.roll(fmt::format("c_0_{}", (number - 1) % 3));
        writer_.packet(number);
    }
    writer_.publish();
    EXPECT_EQ(read(), (root_ / "c_0_2").string() +
                          ": the files of its stream before this one were replaced before they were read; "
                          "events discarded: 0 3 4 5 ");
}

// It may be the next chunk of a session that was rotated while we were busy.
TEST_F(FollowedTraceTest, TraceThatCameLaterAndHasLostItsBeginningIsNamed) {
    for (char number = 1; number < 6; ++number) {
        writer_.roll(fmt::format("c_0_{}", (number - 1) % 3));
        writer_.packet(number);
    }
    writer_.publish();
    open(true);
    EXPECT_TRUE(read().starts_with((root_ / "c_0_2").string() + ": the files of its stream before this one were"));
}

// Its first one may be on its way to a relay, or lost.
TEST_F(FollowedTraceTest, TraceWithoutPacketsHoldsNobodyUp) {
    RollingWriter other(root_ / "other");
    other.roll("c_0_0");
    other.publish(9);
    auto opened = FollowedTrace::open(root_ / "other", 1, merge_, [](const std::string& /*text*/) {});
    ASSERT_TRUE(opened && opened->trace != nullptr);
    ASSERT_TRUE(opened->trace->advance());
    writer_.roll("d_0_0");
    writer_.packet(1);
    writer_.publish();
    EXPECT_EQ(read(), "events discarded: 0 1 ");
}

TEST_F(FollowedTraceTest, GapWithoutReplacedFilesIsTheTracers) {
    writer_.roll("c_0_0");
    writer_.packet(1);
    writer_.roll("c_0_1");
    writer_.packet(4);
    writer_.publish();
    EXPECT_EQ(read(), "events discarded: 0 1 packets discarded: 2 4 ");
}

TEST_F(FollowedTraceTest, StreamsOfOneDirectoryAreToldApart) {
    std::string told;
    for (char number = 1; number < 5; ++number)
        for (const char cpu : {0, 1}) {
            writer_.roll(fmt::format("c_{}_{}", static_cast<int>(cpu), number % 2));
            writer_.packet(number, static_cast<char>(cpu + 1));
            writer_.publish();
            told += read();
        }
    writer_.end();
    EXPECT_EQ(told + read(), "events discarded: 0 1 events discarded: 0 1 2 2 3 3 4 4 end");
}

TEST_F(FollowedTraceTest, NewIndexIsNotReadWithOldData) {
    writer_.roll("c_0_0");
    writer_.packet(1);
    writer_.publish();
    EXPECT_EQ(read(), "events discarded: 0 1 ");
    // The writer has replaced the index only, and stops for a while.
    writer_.remove(writer_.index());
    std::ofstream(root_ / writer_.index()) << text_of(trace::encode_index_header());
    writer_.publish();
    EXPECT_EQ(read(), "");
    writer_.roll("c_0_0");
    writer_.packet(2);
    writer_.publish();
    EXPECT_EQ(read(), "2 ");
}

TEST_F(FollowedTraceTest, DataThatWereReplacedBeforeTheyWereOpenedAreMissed) {
    writer_.roll("c_0_0");
    writer_.packet(1);
    writer_.publish();
    EXPECT_EQ(read(), "events discarded: 0 1 ");
    writer_.roll("c_0_1");
    writer_.publish();
    EXPECT_EQ(read(), "");  // the follower holds the index of c_0_1, which has no entry
    writer_.packet(2);
    writer_.roll("c_0_0");
    writer_.packet(3);
    writer_.roll("c_0_1");
    writer_.packet(4);
    writer_.publish();
    EXPECT_EQ(read(), "missed: 1 3 4 ");
}

TEST_F(FollowedTraceTest, FileForWhichThereIsNoDescriptorComesLater) {
    writer_.roll("c_0_0");
    writer_.packet(1);
    writer_.publish();
    EXPECT_EQ(read(), "events discarded: 0 1 ");
    writer_.roll("c_0_1");
    writer_.packet(2);
    writer_.publish();
    {
        const test::FewDescriptorsLeft few(1);  // for the index, and not for the data
        EXPECT_EQ(read(), "");
        EXPECT_EQ(read(), "");  // the directory cannot be listed now
    }
    EXPECT_EQ(read(), "2 ");
    writer_.end();
    EXPECT_EQ(read(), "end");
    EXPECT_EQ(cut_short(), 0U);
}

TEST_F(FollowedTraceTest, FileThatCannotBeReadIsToldOf) {
    writer_.roll("c_0_0");
    writer_.packet(1);
    writer_.publish();
    EXPECT_EQ(read(), "events discarded: 0 1 ");
    fs::create_directory(root_ / "index/d_0.idx");
    std::ofstream(root_ / "d_0").close();
    writer_.publish();
    EXPECT_NE(read().find("d_0: "), std::string::npos);
    writer_.packet(2);
    writer_.publish();
    EXPECT_EQ(read(), "2 ");
    EXPECT_EQ(cut_short(), 1U);
}

// As if it had been found too late: a follower was stopped between two looks at the directory.
TEST_F(FollowedTraceTest, FileOfPacketsBeforeThoseThatWereReadIsNotShown) {
    writer_.roll("c_0_0");
    writer_.packet(1);
    writer_.roll("c_0_1");
    writer_.packet(4);
    writer_.publish();
    EXPECT_EQ(read(), "events discarded: 0 1 packets discarded: 2 4 ");
    writer_.roll("c_0_2");
    writer_.packet(3);
    writer_.publish(4);
    EXPECT_EQ(read(), "");
    writer_.roll("c_0_0");
    writer_.packet(5);
    writer_.publish();
    EXPECT_EQ(read(), "5 ");
}

TEST_F(FollowedTraceTest, IndexThatDoesNotTellTheStreamMakesEachFileOne) {
    for (char number = 1; number < 4; ++number) {
        writer_.roll(fmt::format("c_0_{}", number % 2), 0);
        writer_.packet(number);
        writer_.publish();
        EXPECT_EQ(read(), fmt::format("events discarded: 0 {} ", static_cast<int>(number)));
    }
    writer_.end();
    EXPECT_EQ(read(), "end");
}

TEST_F(FollowedTraceTest, LostPacketsComeBeforeThoseThatFollow) {
    writer_.roll("c_0_0");
    writer_.entry({.offset = ctf::IndexEntry::kLostOffset});
    writer_.packet(2);
    writer_.roll("c_0_1");
    writer_.packet(3);
    writer_.publish();
    EXPECT_EQ(read(), "events discarded: 0 2 3 ");
}

TEST_F(FollowedTraceTest, PacketThatIsNotSafeYetWaits) {
    writer_.roll("c_0_0");
    writer_.packet(1);
    const UniqueFd data(::open((root_ / "c_0_0").c_str(), O_RDWR | O_CLOEXEC));
    trace::MovingLock lock(data.get(), 3);
    writer_.publish();
    EXPECT_EQ(read(), "");
    lock.release();
    EXPECT_EQ(read(), "events discarded: 0 1 ");
}

// The writer may be in the middle of a round.
TEST_F(FollowedTraceTest, NothingBeyondTheHorizonIsTold) {
    writer_.roll("c_0_0");
    writer_.packet(1);
    writer_.packet(2);
    writer_.packet(3);
    writer_.publish(2);
    EXPECT_EQ(read(), "events discarded: 0 1 2 ");
    writer_.publish();
    EXPECT_EQ(read(), "3 ");
}

// A rotation: the last event of one CPU is later than the first one of another in the next chunk.
class NextChunkTest : public FollowedTraceTest {
  protected:
    NextChunkTest() {
        writer_.roll("c_0_0");
        writer_.packet(2);
        writer_.packet(3);
        writer_.publish(2);
        EXPECT_EQ(read(), "events discarded: 0 2 ");
    }
    // The old chunk ends. As a follower does: all that is open goes on before anything is told.
    std::string end_of_chunk() {
        writer_.end();
        EXPECT_EQ(*next_trace_->advance(), Progress::kNothingNew);
        return read();
    }

    RollingWriter next_{"next", 2};
    std::unique_ptr<FollowedTrace> next_trace_ = opened("next", 1, true);
};

TEST_F(NextChunkTest, EndOfAChunkWaitsForTheBeginningOfTheNext) {
    EXPECT_EQ(end_of_chunk(), "");
    next_.roll("c_1_0");
    next_.packet(2, 8);
    next_.publish();
    EXPECT_EQ(read(*next_trace_), "events discarded: 0 2 ");
    next_.end();
    EXPECT_EQ(read(*next_trace_), "3 end");
    EXPECT_EQ(merge_.late_events(), 0U);
}

// We have met their writer in the middle, before it came to the clock.
TEST_F(NextChunkTest, MetadataThatAreBeingWrittenAreReadOn) {
    next_.hold_metadata();
    EXPECT_EQ(*next_trace_->advance(), Progress::kNothingNew);
    next_.give_metadata();
    EXPECT_EQ(end_of_chunk(), "");
}

TEST_F(NextChunkTest, ChunkThatIsDroppedHoldsNobodyBack) {
    EXPECT_EQ(end_of_chunk(), "");
    next_.end();
    EXPECT_EQ(read(*next_trace_), "3 end");
}

}  // namespace
}  // namespace leat::viewer
