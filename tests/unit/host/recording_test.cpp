#include "host/recording.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <functional>
#include <optional>
#include <utility>

#include "host/engine.hpp"
#include "support/patience.hpp"
#include "support/test_application.hpp"
#include "support/test_rings.hpp"

namespace leat::host {
namespace {

using namespace std::chrono_literals;

// What stands still in a test does so from the first moment on, or for good.
constexpr Engine::Clock::duration kNoPatience = 0s;
constexpr Engine::Clock::duration kMuchPatience = 1h;

// Stores what it was given when the test says so, as a relay does.
class SlowOutput final : public consumer::Output {
  public:
    struct Peer {
        bool has_stored = true;
        bool has_answered_close = true;
        bool is_full = false;
        std::uint64_t taken = 0;
        int packets = 0;
        int begun_closing = 0;
        int closed = 0;
        bool was_stored_at_close = false;
        std::uint64_t events_lost = 0;
        bool is_delivered = true;
        std::size_t max_packet_size = consumer::Output::kAnySize;
        std::function<void()> when_written = [] {};
        std::uint64_t stored_up_to = 0;  // if not all is stored
    };
    explicit SlowOutput(Peer& peer) : peer_(&peer) {}

    Result<void> write_metadata(std::string_view /*unit*/) override { return {}; }
    Result<void> write_packet(const consumer::Packet& /*packet*/) override {
        if (peer_->is_full) return fail(ErrorKind::kDiskFull, "the disk is full");
        ++peer_->packets;
        peer_->when_written();
        return {};
    }
    [[nodiscard]] std::size_t max_packet_size() const override { return peer_->max_packet_size; }
    [[nodiscard]] std::uint64_t stored(consumer::StreamId /*stream*/) const override {
        return peer_->has_stored ? ~std::uint64_t{0} : peer_->stored_up_to;
    }
    [[nodiscard]] std::uint64_t taken() const override { return peer_->taken; }
    [[nodiscard]] bool is_delivered() const override { return peer_->is_delivered; }
    [[nodiscard]] std::vector<pollfd> wanted() const override { return {{.fd = -1, .events = POLLIN, .revents = 0}}; }
    [[nodiscard]] Result<void> check_delivered() const override {
        return peer_->has_stored ? Result<void>() : fail(ErrorKind::kIo, "the relay does not take it");
    }
    [[nodiscard]] std::uint64_t events_lost() const override { return peer_->events_lost; }
    void begin_close() override {
        ++peer_->begun_closing;
        peer_->was_stored_at_close = peer_->has_stored;
    }
    [[nodiscard]] bool awaits_close() const override { return !peer_->has_answered_close; }
    void close() override { ++peer_->closed; }

  private:
    Peer* peer_;
};

class RecordingEnd : public testing::Test {
  protected:
    void record(Engine::Clock::duration patience = kMuchPatience) { record({.patience = patience}); }
    void record(const Recording::Parameters& parameters) {
        auto recording = Recording::create(*trace_, std::make_unique<SlowOutput>(peer_), parameters);
        ASSERT_TRUE(recording) << recording.error().message;
        recording_ = &engine_->add(*std::move(recording));
    }
    // The end has packets to write: they tell of this.
    void discard_an_event() {
        ring::RingHeader& ring = trace_->channels()[0]->rings().ring(0);
        std::atomic_ref(ring.discarded[0]).fetch_add(1);
    }
    // Nothing that is awaited comes about in these turns.
    void turn_for_a_while() {
        for (int turn = 0; turn < 25; ++turn) engine_->turn({}, 10ms);
    }
    template <typename Condition>
    bool turn_until(Condition condition) {
        return test::wait_until(condition, [&] { engine_->turn({}, 10ms); });
    }
    bool turn_until_finished() {
        return turn_until([&] { return recording_->is_finished(); });
    }

    static std::unique_ptr<session::Trace> make_trace() {
        const session::Channel channel{.name = "channel", .contexts = {}, .ring_size = ring::kMinRingSize};
        return *session::Trace::create({.session_name = "test", .key = {}}, std::vector{channel});
    }
    std::unique_ptr<session::Trace> trace_ = make_trace();
    SlowOutput::Peer peer_;
    std::unique_ptr<Engine> engine_ = *Engine::create();
    Recording* recording_ = nullptr;
};

class RecordingPace : public RecordingEnd {
  protected:
    // Nobody knows event 1.
    void write_event(std::uint32_t id = 1) {
        const std::array<char, 1 + ring::kCopySlack> staged{};
        test::TestWriter writer(map_, ring::HeaderKind::kCompact);
        ASSERT_EQ(ring::thread_write(*writer.get(), first_ring_, id, staged.data(), 1,
                                     ring::clock_now(trace_->clock().page())),
                  ring::WriteOutcome::kWritten);
    }
    // An event comes, and soon a drain: the next one is then due.
    void drain_an_event() {
        write_event();
        ASSERT_TRUE(turn_until([&] { return first_ring_.tail == first_ring_.head; }));
    }
    [[nodiscard]] bool waits_for_answers() const { return (recording_->wanted().at(0).events & POLLIN) != 0; }

    ring::RingHeader& first_ring_ = trace_->channels()[0]->rings().ring(0);
    std::array<ring::RingHeader*, 1> rings_{&first_ring_};
    ring::RingMap map_{.rings = rings_.data(),
                       .mask = ring::kMinRingSize - 1,
                       .clock = &trace_->clock().page(),
                       .rseq_offset = 0,
                       .cpu_ring_count = 0,
                       .thread_ring_count = 1,
                       .form = ring::header_form(ring::HeaderKind::kCompact)};
};

TEST_F(RecordingPace, AnswersLieOnlyUntilADrainThatIsDueSoon) {
    record();
    EXPECT_TRUE(waits_for_answers());
    drain_an_event();
    EXPECT_TRUE(waits_for_answers()) << "no drain runs an output that has delivered all";
    peer_.is_delivered = false;
    drain_an_event();
    EXPECT_FALSE(waits_for_answers());
    for (int drain = 0; drain < 20; ++drain) drain_an_event();
    EXPECT_TRUE(waits_for_answers()) << "drains are far apart by now";
}

TEST_F(RecordingPace, WhoIsAwaitedDoesNotSlowDown) {
    peer_.is_delivered = false;
    record({.is_copied = true, .patience = kMuchPatience});
    for (int drain = 0; drain < 20; ++drain) drain_an_event();
    EXPECT_FALSE(waits_for_answers());
}

// A packet for each record, and for each packet another record.
TEST_F(RecordingPace, ProgramThatIsAsFastAsTheRelayKeepsNobody) {
    const session::Application application = test::application({{.fields = {{.element_size = 1}}}});
    const std::uint32_t id = trace_->channels()[0]->enroll(application, 0, session::OnConflict::kRefuse).id;
    peer_.max_packet_size = ctf::kPacketHeaderSize + ring::kMinRecordSize;
    peer_.has_stored = false;
    record();
    for (std::size_t event = 0; event < 3 * consumer::Consumer::kMaxUnstored; ++event) write_event(id);
    peer_.when_written = [this, id] { write_event(id); };
    const auto store_packets = [this] {
        for (int turn = 0; turn < 1000 && recording_->is_storing(); ++turn) {
            peer_.stored_up_to = static_cast<std::uint64_t>(peer_.packets);
            recording_->turn(true, {});
        }
        EXPECT_FALSE(recording_->is_storing());
        EXPECT_FALSE(recording_->output_error());
    };
    recording_->begin_settle();
    store_packets();
    recording_->resume();
    recording_->begin_finish();
    store_packets();
    EXPECT_TRUE(recording_->is_finished());
    EXPECT_GT(peer_.packets, 3 * static_cast<int>(consumer::Consumer::kMaxUnstored));
    EXPECT_EQ(recording_->consumer().unreadable(), 0U);
}

// A process has so many mappings at most. At the end, what is there must not be forgotten.
class RecordingOfAnUnmappedRing : public RecordingEnd, public testing::WithParamInterface<bool> {};

TEST_P(RecordingOfAnUnmappedRing, IsAwaitedUntilItIsGivenUp) {
    record(kNoPatience);
    const ring::RingSet& rings = trace_->channels()[0]->rings();
    const std::uint32_t first = rings.geometry().cpu_rings;
    const UniqueFd writable(::dup(rings.fd()));
    const auto own = ring::RingSet::adopt(UniqueFd(::dup(rings.fd())), rings.geometry(), rings.created());
    ASSERT_TRUE(own && own->map(first));
    ring::RecordWriter writer{};
    writer.map.mask = ring::kMinRingSize - 1;
    writer.map.form = ring::header_form(ring::HeaderKind::kCompact);
    own->ring(first).limit = ring::kMinRingSize;
    const std::array<char, 1 + ring::kCopySlack> staged{};
    ASSERT_EQ(ring::thread_write(writer, own->ring(first), 1, staged.data(), 1, rings.created() + 1),
              ring::WriteOutcome::kWritten);
    own->header().thread_rings_used = 1;
    const UniqueFd readable(::open(fmt::format("/proc/self/fd/{}", rings.fd()).c_str(), O_RDONLY | O_CLOEXEC));
    ASSERT_EQ(::dup2(readable.get(), rings.fd()), rings.fd());
    recording_->begin_finish();
    turn_for_a_while();
    EXPECT_TRUE(recording_->is_storing());
    if (GetParam()) {
        engine_->finish(*recording_);
        ASSERT_TRUE(recording_->output_error());
        EXPECT_TRUE(recording_->output_error()->message.starts_with("cannot map a ring"));
        EXPECT_EQ(recording_->consumer().totals().left_in_rings, 1U);
    } else {
        ASSERT_EQ(::dup2(writable.get(), rings.fd()), rings.fd());
        EXPECT_TRUE(turn_until_finished());
        EXPECT_FALSE(recording_->output_error());
        EXPECT_EQ(recording_->consumer().totals().events + recording_->consumer().unreadable(), 1U);
    }
    EXPECT_EQ(peer_.closed, 1);
}
INSTANTIATE_TEST_SUITE_P(Both, RecordingOfAnUnmappedRing, testing::Bool());

TEST_F(RecordingEnd, SettledRecordingHasStoredAllAndGoesOn) {
    record();
    peer_.has_stored = false;
    discard_an_event();
    recording_->begin_settle();
    turn_for_a_while();
    EXPECT_TRUE(recording_->is_storing());
    EXPECT_EQ(recording_->trouble()->message, "the relay does not take it");
    peer_.has_stored = true;
    EXPECT_TRUE(turn_until([&] { return !recording_->is_storing(); }));
    EXPECT_FALSE(recording_->trouble());
    discard_an_event();
    turn_for_a_while();
    EXPECT_EQ(std::pair(peer_.packets, peer_.begun_closing), std::pair(2, 0));
    recording_->resume();
    engine_->finish(*recording_);
    EXPECT_TRUE(recording_->is_finished());
    EXPECT_EQ(peer_.packets, 3);
}

TEST_F(RecordingEnd, IsThereAtOnceIfNothingIsAwaited) {
    record();
    discard_an_event();
    recording_->begin_finish();
    EXPECT_TRUE(recording_->is_finished());
    EXPECT_EQ(peer_.packets, 2);
    EXPECT_EQ(std::pair(peer_.begun_closing, peer_.closed), std::pair(1, 1));
}

TEST_F(RecordingEnd, ReadersHearOfItWhenAllIsStored) {
    record();
    peer_.has_stored = false;
    discard_an_event();
    recording_->begin_finish();
    turn_for_a_while();
    EXPECT_TRUE(recording_->is_storing());
    EXPECT_EQ(peer_.begun_closing, 0);
    peer_.has_stored = true;
    EXPECT_TRUE(turn_until_finished());
    EXPECT_TRUE(peer_.was_stored_at_close);
    EXPECT_EQ(peer_.packets, 2) << "what was discarded is told once";
    EXPECT_FALSE(recording_->output_error());
}

TEST_F(RecordingEnd, AwaitsWhatReadersStillHaveToHear) {
    record();
    peer_.has_answered_close = false;
    recording_->begin_finish();
    turn_for_a_while();
    EXPECT_FALSE(recording_->is_storing());
    EXPECT_FALSE(recording_->is_finished());
    peer_.has_answered_close = true;
    EXPECT_TRUE(turn_until_finished());
    EXPECT_EQ(std::pair(peer_.begun_closing, peer_.closed), std::pair(1, 1));
}

TEST_F(RecordingEnd, TriesADiskAgainUntilThereIsRoom) {
    record();
    peer_.is_full = true;
    discard_an_event();
    recording_->begin_finish();
    EXPECT_TRUE(recording_->is_stuck());
    EXPECT_TRUE(recording_->is_storing());
    peer_.is_full = false;
    EXPECT_TRUE(turn_until_finished());
    EXPECT_EQ(peer_.packets, 2);
    EXPECT_FALSE(recording_->output_error());
}

// This thread may stand still for as long as there is patience. So it looks again after what ends the standstill.
TEST_F(RecordingEnd, IsStuckWhenNothingWasTakenForAWhile) {
    const auto is_stuck = [&] { return recording_->is_stuck(); };
    const auto goes_on = [&] { return !recording_->is_stuck(); };
    const auto take_more = [&] {
        ++peer_.taken;
        engine_->turn({}, 10ms);
    };
    record(1s);
    peer_.has_stored = false;
    discard_an_event();
    recording_->begin_finish();
    for (int i = 0; i < 2; ++i) {
        EXPECT_TRUE(turn_until(is_stuck));
        EXPECT_TRUE(test::wait_until(goes_on, take_more)) << "it goes forward";
    }
    EXPECT_TRUE(turn_until(is_stuck));
    EXPECT_TRUE(test::wait_until(goes_on, [&] { recording_->begin_finish(); })) << "the patience begins anew";
}

TEST_F(RecordingEnd, GivenUpSaysWhatIsNotStored) {
    record(kNoPatience);
    peer_.has_stored = false;
    discard_an_event();
    engine_->finish(*recording_);
    EXPECT_TRUE(recording_->is_finished());
    ASSERT_TRUE(recording_->output_error());
    EXPECT_EQ(recording_->output_error()->message, "the relay does not take it");
    EXPECT_EQ(peer_.begun_closing, 0) << "readers do not take it for the end";
}

TEST_F(RecordingEnd, GivenUpWhenAllIsStoredLosesNothing) {
    record(kNoPatience);
    peer_.has_answered_close = false;
    engine_->finish(*recording_);
    EXPECT_TRUE(recording_->is_finished());
    EXPECT_FALSE(recording_->output_error());
    EXPECT_EQ(peer_.closed, 1);
}

TEST_F(RecordingEnd, TellsWhatIsMissingAlsoOnAFullDisk) {
    for (const bool is_full : {false, true}) {
        peer_ = {.is_full = is_full, .events_lost = 5};
        record(kNoPatience);
        discard_an_event();
        engine_->finish(*recording_);
        EXPECT_TRUE(recording_->is_finished());
        EXPECT_EQ(recording_->output_error().has_value(), is_full);
        ASSERT_FALSE(recording_->warnings().empty());
        EXPECT_EQ(recording_->warnings().back(),
                  "5 events are missing: their files were removed while they were recorded");
    }
}

TEST_F(RecordingEnd, SnapshotOfWhichEventsAreMissingFails) {
    const auto recording = *Recording::create_for_snapshots(*trace_, {});
    SlowOutput output(peer_);
    EXPECT_TRUE(recording->take_snapshot(output, 0));
    peer_.events_lost = 5;
    const auto taken = recording->take_snapshot(output, 0);
    ASSERT_FALSE(taken);
    EXPECT_EQ(taken.error().message, "5 events are missing: their files were removed while they were recorded");
}

}  // namespace
}  // namespace leat::host
