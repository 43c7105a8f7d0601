// Random histories of producers, viewers and faults against a real relay: see support/relay_model.hpp. Then written
// histories, among them those that once went wrong.
//
//   LEAT_MODEL_SEED=N       this history only; it is not made shorter if LEAT_MODEL_SHRINK=0
//   LEAT_MODEL_STEPS=N      steps in a history
//   LEAT_MODEL_SECONDS=N    run for this long, with seeds from LEAT_MODEL_SEED on
//   LEAT_MODEL_IGNORE=A,B   kinds of violation (by first word) that end a history without failing it
#include "support/relay_model.hpp"

#include <gtest/gtest.h>
#include <sched.h>
#include <sys/mount.h>

#include <fstream>
#include <random>

#include "support/model_histories.hpp"
#include "support/patience.hpp"
#include "support/skip.hpp"

namespace leat::relay {
namespace {

using test::number_from;
using test::RelayModel;
using History = test::ModelHistory;

struct Outcome {
    std::string violation{};
    std::vector<std::string> told{};
    std::string log{};
    RelayModel::Counts counts{};
    std::size_t steps = 0;  // taken

    [[nodiscard]] std::string kind() const { return violation.substr(0, violation.find(':')); }
};

test::Draw draw_for(std::uint64_t seed, std::uint64_t step) {
    auto random = std::make_shared<std::mt19937_64>(seed * 1'000'003 + step);
    return [random](std::uint64_t bound) { return (*random)() % bound; };
}

Outcome run(const History& history, const RelayModel::Options& options) {
    RelayModel model(std::make_unique<test::ForkedRelay>(), options);
    Outcome outcome;
    for (const std::uint64_t step : history.steps) {
        if (!model.violation().empty()) break;
        model.step(draw_for(history.seed, step));
        ++outcome.steps;
    }
    if (model.violation().empty()) model.finish(draw_for(history.seed, ~std::uint64_t{0}));
    outcome.violation = model.violation();
    outcome.told = model.history();
    outcome.counts = model.counts();
    if (!outcome.violation.empty()) outcome.log = model.relay_log();
    return outcome;
}

// Leaves out steps that the failure does not need: first half of them, then a quarter, and so on.
Outcome shrink(History history, Outcome failed, const RelayModel::Options& options) {
    history.steps.resize(std::min(history.steps.size(), failed.steps));
    const test::Patience patience{std::chrono::seconds(number_from("LEAT_MODEL_SHRINK", 30))};
    for (std::size_t size = history.steps.size() / 2; size > 0;) {
        bool is_shorter = false;
        for (std::size_t at = 0; at < history.steps.size() && !patience.is_over();) {
            History candidate = history;
            const auto begin = candidate.steps.begin() + static_cast<std::ptrdiff_t>(at);
            candidate.steps.erase(begin,
                                  begin + static_cast<std::ptrdiff_t>(std::min(size, candidate.steps.size() - at)));
            Outcome outcome = run(candidate, options);
            if (outcome.kind() == failed.kind()) {
                candidate.steps.resize(std::min(candidate.steps.size(), outcome.steps));
                history = std::move(candidate);
                failed = std::move(outcome);
                is_shorter = true;
            } else {
                at += size;
            }
        }
        if (patience.is_over()) break;
        if (!is_shorter || size > 1) size = is_shorter ? size : size / 2;
        size = std::min(size, std::max<std::size_t>(history.steps.size() / 2, is_shorter ? 1 : size));
    }
    return failed;
}

std::string describe(std::uint64_t seed, const Outcome& outcome) {
    std::string text = fmt::format("seed {}: {}\n", seed, outcome.violation);
    for (const std::string& line : outcome.told) text += "    " + line + "\n";
    return text + "The relay says:\n" + outcome.log;
}

bool is_ignored(const std::string& kind) {
    const char* const text = std::getenv("LEAT_MODEL_IGNORE");  // NOLINT(concurrency-mt-unsafe)
    return text != nullptr && ("," + std::string(text) + ",").find("," + kind + ",") != std::string::npos;
}

void run_histories(const RelayModel::Options& options, test::Seeds seeds) {
    const std::uint64_t first = number_from("LEAT_MODEL_SEED", seeds.first);
    const std::uint64_t steps = number_from("LEAT_MODEL_STEPS", 120);
    const auto seconds = std::chrono::seconds(number_from("LEAT_MODEL_SECONDS", 0));
    const bool is_single =
        std::getenv("LEAT_MODEL_SEED") != nullptr && seconds.count() == 0;  // NOLINT(concurrency-mt-unsafe)
    const test::Patience trying(seconds);
    RelayModel::Counts sum;
    std::uint64_t taken = 0;
    std::map<std::string, unsigned> ignored;
    std::uint64_t seed = first;
    for (; is_single ? seed == first : seed < first + seeds.count || !trying.is_over(); ++seed) {
        History history{.seed = seed};
        for (std::uint64_t i = 0; i < steps; ++i) history.steps.push_back(i);
        Outcome outcome = run(history, options);
        taken += outcome.steps;
        sum.packets += outcome.counts.packets;
        sum.stored += outcome.counts.stored;
        sum.viewed += outcome.counts.viewed;
        sum.units += outcome.counts.units;
        sum.rotations += outcome.counts.rotations;
        sum.kills += outcome.counts.kills;
        sum.checks += outcome.counts.checks;
        if (outcome.violation.empty()) continue;
        if (is_ignored(outcome.kind())) {
            ++ignored[outcome.kind()];
            fmt::print("ignored: seed {}: {}\n", seed, outcome.violation);
            continue;
        }
        if (number_from("LEAT_MODEL_SHRINK", 30) != 0) outcome = shrink(history, outcome, options);
        FAIL() << describe(seed, outcome);
    }
    const double time = std::chrono::duration<double>(trying.elapsed()).count();
    fmt::print(
        "{} histories from seed {}, {} steps, {:.0f} a second; packets {}, of which told stored {}; viewed {} and "
        "{} units; {} rotations, {} kills, {} looks at the disk\n",
        seed - first, first, taken, static_cast<double>(taken) / time, sum.packets, sum.stored, sum.viewed, sum.units,
        sum.rotations, sum.kills, sum.checks);
    for (const auto& [kind, count] : ignored) fmt::print("ignored: {} x {}\n", count, kind);
    if (is_single || !ignored.empty()) return;
    // Enough must have happened in these histories.
    EXPECT_GT(sum.packets, taken / 10);
    EXPECT_GT(sum.viewed, taken / 40);
    EXPECT_GT(sum.rotations, seeds.count);
}

TEST(RelayModel, WhateverHappensWhatWasAcknowledgedIsThereAndOthersAreUntouched) {
    // Few histories view much: of these, each sanitizer has some.
    run_histories({}, test::seeds_here(46, 40));
}

// The fuzz target runs the relay in this way.
TEST(RelayModel, ARelayOnAThreadDoesTheSame) {
    const std::uint64_t seed = number_from("LEAT_MODEL_SEED", 1);
    RelayModel model(std::make_unique<test::ThreadedRelay>());
    for (std::uint64_t step = 0; step < 60 && model.violation().empty(); ++step) model.step(draw_for(seed, step));
    model.finish(draw_for(seed, ~std::uint64_t{0}));
    std::string text;
    for (const std::string& line : model.history()) text += "    " + line + "\n";
    EXPECT_EQ(model.violation(), "") << "seed " << seed << "\n" << text;
}

bool write_line(const char* path, const std::string& line) {
    std::ofstream file(path);
    file << line << std::flush;
    return file.good();
}

// Gives the process mounts of its own. It does so directly as root, and otherwise in a user namespace where it is root.
bool enter_mount_namespace() {
    if (::unshare(CLONE_NEWNS) == 0) return true;
    const uid_t uid = ::getuid();
    const gid_t gid = ::getgid();
    return ::unshare(CLONE_NEWUSER | CLONE_NEWNS) == 0 && write_line("/proc/self/setgroups", "deny") &&
           write_line("/proc/self/uid_map", fmt::format("0 {} 1", uid)) &&
           write_line("/proc/self/gid_map", fmt::format("0 {} 1", gid));
}

// Mounts a small file system that only this process sees.
bool mount_small_disk(const std::filesystem::path& where) {
    if (!enter_mount_namespace()) return false;
    if (::mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0) return false;
    return ::mount("none", where.c_str(), "tmpfs", 0, "size=3m,nr_inodes=4k") == 0;
}

class RelayOnASmallDisk : public testing::Test {
  protected:
    void SetUp() override {
        std::filesystem::create_directory(output_);
        is_mounted_ = mount_small_disk(output_);
        LEAT_NEEDS(is_mounted_, "namespaces");
    }
    void TearDown() override {
        if (is_mounted_) ::umount2(output_.c_str(), MNT_DETACH);
    }

    // Runs one history that fills the disk.
    void run_one(const std::function<void(RelayModel&, test::ModelledPart&, test::ModelledStream&)>& history) {
        RelayModel model(std::make_unique<test::ForkedRelay>(), options());
        test::ModelledPart* const part = model.begin_part({});
        ASSERT_NE(part, nullptr);
        model.create_chunk(*part, 0);
        const auto streams = model.add_trace(*part, "ust/uid/0/64-bit", 1);
        history(model, *part, *streams.at(0));
        model.complete(*streams.at(0));
        model.finish([](std::uint64_t) { return std::uint64_t{3}; });
        if (!model.violation().empty())
            ADD_FAILURE() << describe(
                0, {.violation = model.violation(), .told = model.history(), .log = model.relay_log()});
    }
    [[nodiscard]] RelayModel::Options options() const { return {.output = output_, .can_fill_disk = true}; }

  private:
    test::ScratchDirectory scratch_;
    std::filesystem::path output_ = scratch_.path() / "small";
    bool is_mounted_ = false;
};

TEST_F(RelayOnASmallDisk, AFullDiskIsASlowDisk) { run_histories(options(), {.first = 1, .count = 10}); }

TEST_F(RelayOnASmallDisk, AStreamsFirstPacketWaitsForRoom) {
    run_one([](RelayModel& model, auto&, test::ModelledStream& stream) {
        model.fill_disk();
        model.send_index(stream, {});
        model.send_data(stream, {});
    });
}

// The packet still fits on the disk. Its index entry does not, because it would need another page.
TEST_F(RelayOnASmallDisk, WhatIsSaidToBeStoredHasItsIndexEntry) {
    run_one([](RelayModel& model, test::ModelledPart&, test::ModelledStream& stream) {
        constexpr std::uint64_t kInOnePage = (4096 - trace::kIndexHeaderSize) / trace::kIndexEntrySize;
        const auto send = [&] {
            model.send_index(stream, {.size = 32});
            model.send_data(stream, {.size = 32});
        };
        for (std::uint64_t i = 0; i < kInOnePage; ++i) send();
        model.complete(stream);
        model.fill_disk();
        send();
        for (int i = 0; i < 100 && !model.ask_pending(stream, kInOnePage).value_or(true); ++i)
            std::this_thread::sleep_for(std::chrono::milliseconds(1));  // moment: between two looks
    });
}

TEST_F(RelayOnASmallDisk, ANewTraceWaitsForRoom) {
    run_one([](RelayModel& model, test::ModelledPart& part, auto&) {
        model.fill_disk();
        model.add_trace(part, "ust/uid/1/64-bit", 1);
    });
}

TEST_F(RelayOnASmallDisk, ARotationWithAHalfPacketWaitsForRoom) {
    run_one([](RelayModel& model, test::ModelledPart& part, test::ModelledStream& stream) {
        model.send_data(stream, {});
        model.send_index(stream, {});
        model.complete(stream);
        model.send_data(stream, {.size = 10'000}, 6'000);
        model.create_chunk(part, 1);
        model.fill_disk();
        model.rotate_data(part, 1, [](const auto&) { return std::uint64_t{1}; });
        model.resume_data(part);
    });
}

// Written histories --------------------------------------------------------------------------------------------------

using wire::RelayCommand;

class RelayHistory : public testing::Test {
  protected:
    ~RelayHistory() override {
        model_.finish([](std::uint64_t) { return std::uint64_t{3}; });
        if (model_.violation().empty()) return;
        std::string text = model_.violation() + "\n";
        for (const std::string& line : model_.history()) text += "    " + line + "\n";
        ADD_FAILURE() << text << "The relay says:\n" << model_.relay_log();
    }

    test::ModelledPart& part(RelayModel::NewPart wanted) {
        wanted.session_id = wanted.session_id != 0 ? wanted.session_id : ++sessions_;
        test::ModelledPart* const part = model_.begin_part(wanted);
        if (part == nullptr) throw std::runtime_error(model_.violation());
        const std::uint64_t current = part->recording->chunk;
        if (part->has_chunks()) model_.create_chunk(*part, current == test::kNoChunk ? 0 : current);
        return *part;
    }

    RelayModel model_{std::make_unique<test::ForkedRelay>()};
    std::uint64_t sessions_ = 50;
};

TEST_F(RelayHistory, RotationOutOfAnyChunkWhileAPacketIsHalfReceived) {
    auto& producer = part({});
    const auto streams = model_.add_trace(producer, "ust/uid/0/64-bit", 1);
    model_.send_data(*streams.at(0), {});
    model_.send_index(*streams.at(0), {});
    model_.complete(*streams.at(0));
    model_.send_data(*streams.at(0), {.size = 10'000}, 5'000);
    model_.send_index(*streams.at(0), {});
    producer.is_loose = streams.at(0)->is_loose = true;
    model_.rotate_data(producer, std::nullopt, [](const auto&) { return std::uint64_t{1}; });
    model_.resume_data(producer);
}

// The relay closes the data connection, so later streams get no data either.
TEST_F(RelayHistory, StreamsThatAreAddedAfterABrokenRuleAreLooseToo) {
    auto& producer = part({});
    const auto streams = model_.add_trace(producer, "ust/uid/0/64-bit", 1);
    model_.send_data(*streams.at(0), {.size = 10'000}, 5'000);
    producer.is_loose = streams.at(0)->is_loose = true;
    model_.rotate_data(producer, std::nullopt, [](const auto&) { return std::uint64_t{0}; });
    model_.resume_data(producer);
    model_.create_chunk(producer, 1);
    for (const test::ModelledStream* later : model_.add_trace(producer, "kernel", 1)) EXPECT_TRUE(later->is_loose);
}

TEST_F(RelayHistory, RotationIntoAChunkWhileAPacketIsHalfReceived) {
    auto& producer = part({});
    const auto streams = model_.add_trace(producer, "ust/uid/0/64-bit", 1);
    model_.send_data(*streams.at(0), {});
    model_.send_index(*streams.at(0), {});
    model_.complete(*streams.at(0));
    model_.send_data(*streams.at(0), {.size = 10'000}, 5'000);
    model_.create_chunk(producer, 1);
    model_.rotate_data(producer, 1, [](const auto&) { return std::uint64_t{1}; });
    model_.close_chunk(producer, 0, wire::ChunkCommand::kMoveToArchives);
    model_.resume_data(producer);
    model_.complete(*streams.at(0));
    model_.check_disk();
}

TEST_F(RelayHistory, AnOldProducerDoesNotDeleteOthersTraces) {
    auto& victim = part({.host = "host-a", .name = "victim"});
    const auto streams = model_.add_trace(victim, "ust/uid/0/64-bit", 1);
    model_.send_data(*streams.at(0), {});
    model_.send_index(*streams.at(0), {});
    model_.complete(*streams.at(0));
    auto& old = part({.minor = 4, .host = "host-a", .name = "old"});
    old.is_loose = true;
    model_.add_stream(
        old, {.path = "/" + victim.directory + "/x", .channel = "metadata", .expect = RelayModel::Expect::kEither});
    model_.say(old, RelayCommand::kCloseTraceChunk,
               wire::encode_request(RelayCommand::kCloseTraceChunk,
                                    wire::CloseTraceChunk{.chunk_id = 0, .command = wire::ChunkCommand::kDelete}));
    old.control.finish();
    model_.cut_part(old, false);
    model_.check_disk();
}

TEST_F(RelayHistory, AnOldProducerStaysOutOfOthersDirectories) {
    auto& victim = part({.host = "host-a", .name = "victim"});
    const auto streams = model_.add_trace(victim, "ust/uid/0/64-bit", 1);
    model_.ask_quiescent(*streams.at(1));
    auto& old = part({.minor = 4, .host = "host-a", .name = "old"});
    const std::string path = "/" + victim.directory + "/ust/uid/0/64-bit";
    const RelayModel::NewStream metadata{.path = path, .channel = "metadata", .expect = RelayModel::Expect::kEither};
    if (auto* const stream = model_.add_stream(old, metadata)) model_.send_metadata(*stream, 1);
    model_.check_disk();
    if (!old.is_over) model_.end_part(old);
    model_.check_disk();
}

TEST_F(RelayHistory, TwoSessionsWithOneBasePathHaveADirectoryEach) {
    for (const std::string name : {"one", "two"})
        model_.add_trace(part({.host = "host-a", .name = name, .base = "base"}), "ust/uid/0/64-bit", 1);
    model_.check_disk();
}

TEST_F(RelayHistory, ABasePathDoesNotLeadIntoAnOlderTrace) {
    auto& producer = part({.host = "host-a", .name = "one", .base = "s9-20250101-000000"});
    model_.add_trace(producer, "ust/uid/0/64-bit", 1);
    model_.end_part(producer);
    model_.check_disk();
}

TEST_F(RelayHistory, ASnapshotGoesBelowADirectoryThatIsThereIntoANewOne) {
    for (const std::string chunk : {"ust", "snapshot-1", "ust"}) {
        test::ModelledPart* const producer = model_.begin_part({.host = "host-a",
                                                                .base = "s9-20250101-000000",
                                                                .session_id = ++sessions_,
                                                                .is_live = false,
                                                                .is_snapshot = true});
        ASSERT_NE(producer, nullptr);
        EXPECT_EQ(producer->directory, "host-a/s9-20250101-000000");
        model_.create_chunk(*producer, 0, chunk);
        const auto streams = model_.add_trace(*producer, "ust/uid/0/64-bit", 1);
        model_.send_data(*streams.at(0), {});
        model_.end_part(*producer);
        model_.check_disk();
    }
}

// Nothing but the end of its data connection tells the relay that all of it has come.
TEST_F(RelayHistory, ASnapshotThatIsCutIsStoredAsFarAsItWasSent) {
    for (int i = 0; i < 10; ++i) {
        auto& producer = part({.is_live = false, .is_snapshot = true});
        const auto streams = model_.add_trace(producer, "ust/uid/0/64-bit", 2);
        model_.send_data(*streams.at(0), {});
        model_.send_data(*streams.at(1), {.size = 299, .padding = 5000});
        model_.cut_part(producer, false);
    }
    model_.stop_relay();
}

TEST_F(RelayHistory, TwoPartsOfASessionDoNotShareATrace) {
    auto& first = part({});
    auto& second = part({.of = first.recording});
    for (auto* const of : {&first, &second}) {
        const auto streams = model_.add_trace(*of, "ust/uid/0/64-bit", 1);
        model_.send_data(*streams.at(0), {});
        model_.send_index(*streams.at(0), {});
        model_.complete(*streams.at(0));
    }
}

TEST_F(RelayHistory, WhatIsSaidToBeStoredIsOnDisk) {
    // Then one thread does not serve both of its connections.
    auto& producer = part({.is_live = false});
    const auto streams = model_.add_trace(producer, "ust/uid/0/64-bit", 1);
    model_.send_data(*streams.at(0), {});
    model_.send_index(*streams.at(0), {});
    for (int i = 0; i < 25 && model_.violation().empty(); ++i) model_.send_burst(*streams.at(0), 500);
}

TEST_F(RelayHistory, MetadataThatIsClosedAndOpenedAgainIsOneStreamToViewers) {
    auto& producer = part({});
    const auto streams = model_.add_trace(producer, "ust/uid/0/64-bit", 1);
    test::ModelledViewer* const viewer = model_.begin_viewer();
    ASSERT_NE(viewer, nullptr);
    model_.attach(*viewer, producer, wire::Seek::kBeginning);
    model_.close_stream(*streams.at(1));
    if (auto* const again = model_.add_stream(producer, {.channel = "metadata"})) model_.send_metadata(*again, 1);
    model_.add_stream(producer, {.channel = "channel0_7"});
    model_.publish_streams(producer);
    model_.read_all(*viewer);
}

// The second text is not the first one: viewers get all of it, and begin at a unit.
TEST_F(RelayHistory, MetadataThatIsOpenedAgainBeginsAnewForAViewerThatHasReadTheOld) {
    auto& producer = part({});
    const auto streams = model_.add_trace(producer, "ust/uid/0/64-bit", 1);
    test::ModelledViewer* const viewer = model_.begin_viewer();
    ASSERT_NE(viewer, nullptr);
    model_.attach(*viewer, producer, wire::Seek::kBeginning);
    for (const unsigned units : {2U, 1U, 3U}) {
        model_.read_all(*viewer);
        model_.close_stream(*model_.streams_of(producer).back());
        auto* const again = model_.add_stream(producer, {.channel = "metadata"});
        ASSERT_NE(again, nullptr);
        model_.read_all(*viewer);
        model_.send_metadata(*again, units);
        model_.send_data(*streams.at(0), {});
        model_.send_index(*streams.at(0), {});
        model_.complete(*streams.at(0));
    }
    model_.read_all(*viewer);
    EXPECT_EQ(model_.counts().units, 7U);
    EXPECT_EQ(model_.counts().viewed, 3U);
}

// The session ends while the old chunk waits for a packet of one stream. The old chunk is then deleted, and nothing
// else.
TEST_F(RelayHistory, AClearThatIsFinishedByTheEndOfTheSessionSparesTheNextChunk) {
    auto& producer = part({.is_live = false});
    const auto streams = model_.add_trace(producer, "ust/uid/0/64-bit", 1);
    model_.send_index(*streams.at(0), {});
    model_.create_chunk(producer, 1);
    model_.rotate_data(producer, 1, [](const auto&) { return std::uint64_t{2}; });
    model_.rotate_metadata(producer, 1);
    model_.ask_quiescent(*streams.at(1));
    model_.close_chunk(producer, 0, wire::ChunkCommand::kDelete);
    producer.control.finish();
    model_.stop_relay();
}

TEST_F(RelayHistory, AChunkThatIsClosedWithoutACommandKeepsItsPlace) {
    auto& producer = part({.is_live = false});
    const auto streams = model_.add_trace(producer, "ust/uid/0/64-bit", 1);
    for (const std::uint64_t chunk : {0U, 1U, 2U}) {
        model_.send_data(*streams.at(0), {});
        model_.send_index(*streams.at(0), {});
        model_.complete(*streams.at(0));
        model_.create_chunk(producer, chunk + 1);
        model_.rotate_data(producer, chunk + 1, [](const auto& stream) { return stream.next_data; });
        model_.rotate_metadata(producer, chunk + 1);
        model_.close_chunk(producer, chunk, wire::ChunkCommand::kNone);
        model_.check_disk();
    }
}

// A packet of the old chunk is missing, so the stream has not come yet when its metadata has left again.
TEST_F(RelayHistory, AChunkIsNotCompleteBeforeAStreamOnItsWayHasComeAndLeft) {
    for (const auto command :
         {wire::ChunkCommand::kNone, wire::ChunkCommand::kMoveToArchives, wire::ChunkCommand::kDelete}) {
        auto& producer = part({.is_live = false});
        const auto streams = model_.add_trace(producer, "ust/uid/0/64-bit", 1);
        model_.send_index(*streams.at(0), {});
        model_.create_chunk(producer, 1);
        model_.rotate_data(producer, 1, [](const auto&) { return std::uint64_t{1}; });
        model_.rotate_metadata(producer, 1);
        model_.close_chunk(producer, 0, wire::ChunkCommand::kNone);
        model_.close_chunk(producer, 1, command);
        model_.close_stream(*streams.at(1));
        for (int packet = 0; packet < 2; ++packet) model_.send_data(*streams.at(0), {});
        model_.send_index(*streams.at(0), {});
        model_.complete(*streams.at(0));
        model_.check_disk();
    }
}

// The chunk is cleared only after both parts have left it.
TEST_F(RelayHistory, TheEndOfOnePartDoesNotClearWhatAnotherWritesTo) {
    auto& first = part({.is_live = false});
    auto& second = part({.is_live = false, .of = first.recording});
    model_.add_trace(first, "ust/uid/0/64-bit", 1);
    const auto streams = model_.add_trace(second, "kernel", 1);
    for (auto* const one : {&first, &second}) {
        model_.create_chunk(*one, 1);
        model_.rotate_data(*one, 1, [&](const auto&) { return std::uint64_t{one == &second ? 1U : 0U}; });
        model_.rotate_metadata(*one, 1);
        model_.close_chunk(*one, 0, wire::ChunkCommand::kDelete);
    }
    model_.end_part(first);
    for (int packet = 0; packet < 2; ++packet) {
        model_.send_data(*streams.at(0), {});
        model_.send_index(*streams.at(0), {});
    }
    model_.complete(*streams.at(0));
    model_.check_disk();
}

TEST_F(RelayHistory, PartsOfASessionShareADirectoryWhoseNameWasTaken) {
    part({.name = "s1"});
    auto& first = part({.name = "s1"});
    part({.of = first.recording});
    part({.of = first.recording});
}

// Two consumer daemons do this at the end of their session.
TEST_F(RelayHistory, EachPartOfASessionClosesItsChunk) {
    auto& first = part({});
    auto& second = part({.of = first.recording});
    model_.add_trace(first, "ust/uid/0/64-bit", 1);
    model_.add_trace(second, "kernel", 1);
    for (auto* const one : {&first, &second}) {
        model_.rotate_data(*one, std::nullopt, [](const auto&) { return std::uint64_t{0}; });
        model_.rotate_metadata(*one, std::nullopt);
    }
    model_.close_chunk(first, 0, std::nullopt);
    model_.close_chunk(second, 0, std::nullopt);
}

// The viewer has not read the file yet. It gets nothing from it then, but no error either, which would end the viewer.
TEST_F(RelayHistory, AViewerOutlivesAClear) {
    auto& producer = part({});
    const auto streams = model_.add_trace(producer, "ust/uid/0/64-bit", 1);
    test::ModelledViewer* const viewer = model_.begin_viewer();
    ASSERT_NE(viewer, nullptr);
    model_.attach(*viewer, producer, wire::Seek::kBeginning);
    model_.send_data(*streams.at(0), {});
    model_.send_index(*streams.at(0), {});
    model_.complete(*streams.at(0));
    model_.rotate_data(producer, std::nullopt, [](const auto&) { return std::uint64_t{1}; });
    model_.rotate_metadata(producer, std::nullopt);
    model_.close_chunk(producer, 0, wire::ChunkCommand::kDelete);
    producer.is_rotated = true;
    producer.chunk = test::kNoChunk;
    model_.read_all(*viewer);
}

// The stream has left the chunk when the viewer comes, and sends nothing in the next one.
TEST_F(RelayHistory, AViewerThatIsLateAtARotationMissesWhatItHasNotRead) {
    auto& producer = part({});
    const auto streams = model_.add_trace(producer, "ust/uid/0/64-bit", 1);
    test::ModelledViewer* const viewer = model_.begin_viewer();
    ASSERT_NE(viewer, nullptr);
    model_.attach(*viewer, producer, wire::Seek::kBeginning);
    for (int packet = 0; packet < 2; ++packet) {
        model_.send_data(*streams.at(0), {});
        model_.send_index(*streams.at(0), {});
        model_.complete(*streams.at(0));
        if (packet == 0) model_.read_all(*viewer);
    }
    model_.create_chunk(producer, 1);
    model_.rotate_data(producer, 1, [](const auto&) { return std::uint64_t{2}; });
    model_.rotate_metadata(producer, 1);
    model_.close_chunk(producer, 0, wire::ChunkCommand::kMoveToArchives);
    producer.is_rotated = true;
    model_.end_part(producer);
    model_.read_all(*viewer);
}

// The metadata that the viewer has not read yet is cleared with its chunk, and the stream goes on in another one.
TEST_F(RelayHistory, AViewerIsNotToldOfPacketsWhoseMetadataIsNotThere) {
    for (const bool comes_again : {true, false}) {
        auto& producer = part({});
        const auto streams = model_.add_trace(producer, "ust/uid/0/64-bit", 1);
        test::ModelledViewer* const viewer = model_.begin_viewer();
        ASSERT_NE(viewer, nullptr);
        model_.attach(*viewer, producer, wire::Seek::kBeginning);
        if (comes_again)
            model_.rotate_metadata(producer, std::nullopt);
        else
            model_.close_stream(*streams.at(1));
        model_.create_chunk(producer, 1);
        model_.rotate_data(producer, 1, [](const auto&) { return std::uint64_t{0}; });
        model_.close_chunk(producer, 0, wire::ChunkCommand::kDelete);
        producer.is_rotated = true;
        model_.send_data(*streams.at(0), {});
        model_.send_index(*streams.at(0), {});
        model_.complete(*streams.at(0));
        const std::uint64_t before = model_.counts().viewed;
        model_.read_all(*viewer);
        EXPECT_EQ(model_.counts().viewed, before);
        if (comes_again) model_.rotate_metadata(producer, 1);
        model_.read_all(*viewer);
        EXPECT_EQ(model_.counts().viewed, before + (comes_again ? 1 : 0));
        model_.end_part(producer);
        model_.read_all(*viewer);
    }
}

TEST_F(RelayHistory, DataThatTheRelayHasNotSeenYetWhenItEnds) {
    auto& other = part({});
    model_.add_trace(other, "ust/uid/0/64-bit", 1);
    auto& producer = part({.of = other.recording});
    const auto streams = model_.add_trace(producer, "kernel", 3);
    model_.send_index(*streams.at(1), {});
    model_.send_data(*streams.at(1), {});
    model_.stop_relay();
}

TEST_F(RelayHistory, AGapIsLostPackets) {
    auto& producer = part({});
    const auto streams = model_.add_trace(producer, "ust/uid/0/64-bit", 1);
    for (const std::uint64_t number : {0U, 1U, 5'000U, 5'001U}) {
        streams.at(0)->next_data = streams.at(0)->next_index = number;
        model_.send_data(*streams.at(0), {});
        model_.send_index(*streams.at(0), {});
    }
    model_.complete(*streams.at(0));
}

TEST_F(RelayHistory, ACommandExistsOnlyInTheVersionsThatHaveIt) {
    struct Later {
        std::uint32_t since;
        RelayCommand command;
        wire::Bytes bytes;
    };
    const auto later = [](std::uint32_t since, RelayCommand command, const auto& message) {
        return Later{since, command, wire::encode_request(command, message)};
    };
    const std::vector<Later> all{
        later(8, RelayCommand::kResetMetadata, wire::ResetMetadata{1, 1}),
        later(11, RelayCommand::kRotateStreams, wire::RotateStreams{}),
        later(11, RelayCommand::kCreateTraceChunk, wire::CreateTraceChunk{.chunk_id = 7}),
        later(11, RelayCommand::kCloseTraceChunk,
              wire::CloseTraceChunk{.chunk_id = 0, .command = wire::ChunkCommand::kDelete}),
        later(11, RelayCommand::kTraceChunkExists, wire::TraceChunkExists{0}),
        later(12, RelayCommand::kGetConfiguration, wire::GetConfiguration{}),
    };
    for (const std::uint32_t minor : {4U, 7U, 8U, 10U, 11U})
        for (const Later& command : all)
            if (minor < command.since && model_.violation().empty())
                model_.send_unknown_version_command(part({.minor = minor}), command.command, command.bytes, true);
}

TEST_F(RelayHistory, ASecondVersionEndsTheConnection) {
    const auto again = wire::encode_request(RelayCommand::kVersion, wire::Version{.minor = 4});
    model_.send_unknown_version_command(part({}), RelayCommand::kVersion, again, false);
}

// A viewer that can see a session cannot write to it.
TEST_F(RelayHistory, WhatViewersAreToldIsNotWhatProducersWriteTo) {
    auto& producer = part({});
    const auto streams = model_.add_trace(producer, "ust/uid/0/64-bit", 2);
    test::ModelledViewer* const viewer = model_.begin_viewer();
    ASSERT_NE(viewer, nullptr);
    model_.attach(*viewer, producer, wire::Seek::kBeginning);
    for (const test::ModelledStream* stream : streams) {
        EXPECT_FALSE(viewer->streams.contains(stream->handle)) << stream->handle;
        EXPECT_GT(stream->handle, std::uint64_t{1} << 32) << "it can be guessed";
    }
}

TEST_F(RelayHistory, NamesThatTheRelayUsesItselfAreRefused) {
    auto& producer = part({});
    for (const std::string path : {"archives/x", "index", "ust/index", ".x/y", "ust/.x"})
        model_.add_stream(producer, {.path = path, .expect = RelayModel::Expect::kRefusal});
}

TEST_F(RelayHistory, ASessionsDirectoryMayHaveANameThatATraceMayNot) {
    part({.host = "host-a", .base = "index/x"});
    auto& old = part({.minor = 4});
    for (const std::string path : {"/host-a/index/x/ust", "/host-a/archives/ust"})
        model_.add_stream(old, {.path = path});
    for (const std::string path : {"/host-a/s1/index", "/host-a/s1/archives/x", "/host-a/s1/ust/.x"})
        model_.add_stream(old, {.path = path});
}

}  // namespace
}  // namespace leat::relay
