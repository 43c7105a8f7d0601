#include "host/recovery.hpp"

#include <gtest/gtest.h>

#include "support/left_files.hpp"

namespace leat::host {
namespace {

using test::LeftFiles;

constexpr std::uint64_t kRecords = 1000;

LeftSession::Recovered recover(const LeftFiles& files) {
    const auto session = LeftSession::find(files.of_session());
    if (!session) return {.errors = {session.error().message}};
    std::error_code error;
    const auto output = files.scratch() / "recovered";
    std::filesystem::remove_all(output, error);
    auto recovered = session->store_in(output);
    return recovered ? *std::move(recovered) : LeftSession::Recovered{.errors = {recovered.error().message}};
}

// Of the one trace.
std::pair<std::uint64_t, std::uint64_t> events_and_discarded(const LeftSession::Recovered& recovered) {
    if (recovered.traces.size() != 1 || !recovered.errors.empty()) {
        ADD_FAILURE() << fmt::format("{}", recovered.errors.empty() ? "" : recovered.errors.front());
        return {};
    }
    return {recovered.traces.front().events, recovered.traces.front().discarded};
}

using Counts = std::pair<std::uint64_t, std::uint64_t>;

TEST(Recovery, WhatNobodyHasStored) {
    LeftFiles files(kRecords);
    files.leave();
    EXPECT_EQ(events_and_discarded(recover(files)), Counts(kRecords, 0));
    EXPECT_EQ(LeftSession::find(files.of_session())->name(), "test");
    EXPECT_EQ(LeftSession::find(files.of_session().parent_path())->directory(), files.of_session());
}

TEST(Recovery, WhatIsRecordedIsLeftAlone) {
    LeftFiles files(kRecords);
    const auto session = LeftSession::find(files.of_session());
    ASSERT_FALSE(session);
    EXPECT_NE(session.error().message.find("is in use"), std::string::npos);
}

TEST(Recovery, WhatIsStoredComesNoMore) {
    LeftFiles files(kRecords);
    files.progress().save({0, 0}, {.position = 400 * LeftFiles::kRecordSize,
                                   .sequence_number = 7,
                                   .timestamp = files.trace().channels()[0]->rings().created() + 400'000,
                                   .last_record = files.trace().channels()[0]->rings().created() + 400'000,
                                   .record_count = 400,
                                   .counted_up_to = 400 * LeftFiles::kRecordSize});
    files.leave();
    EXPECT_EQ(events_and_discarded(recover(files)), Counts(600, 0));
    // Nor is it lost if the system went down since.
    files.boot();
    EXPECT_EQ(events_and_discarded(recover(files)), Counts(600, 0));
}

// The kernel keeps the pages of processes that are killed: what is wrong there, a program has written.
TEST(Recovery, UpToWhatAProgramWroteOver) {
    LeftFiles files(kRecords);
    files.leave();
    files.change("channel0.rings", LeftFiles::place_of(500 * LeftFiles::kRecordSize), std::string(4, '\xff'));
    EXPECT_EQ(events_and_discarded(recover(files)), Counts(500, 500));
}

TEST(Recovery, NothingOfARingThatIsTornAfterThePowerWentOff) {
    for (const char byte : {'\0', '\x55'}) {
        LeftFiles files(kRecords);
        files.leave();
        files.change("channel0.rings", LeftFiles::place_of(ring::kPageSize), std::string(ring::kPageSize, byte));
        files.boot();
        EXPECT_EQ(events_and_discarded(recover(files)), Counts(0, kRecords)) << int{byte};
    }
}

// Zeros look like records of event 0, and their times fit: gaps are counted modulo 2^27 ns.
TEST(Recovery, PagesOfZerosAreNoRecords) {
    LeftFiles files(3 * ring::kPageSize / LeftFiles::kRecordSize);
    files.leave();
    files.change("channel0.rings", LeftFiles::place_of(0), std::string(3 * ring::kPageSize, '\0'));
    files.boot();
    EXPECT_EQ(events_and_discarded(recover(files)).first, 0U);
}

TEST(Recovery, LastRecordsOfRingsThatOverwrite) {
    constexpr std::uint64_t kMany = 3 * LeftFiles::kRingSize / LeftFiles::kRecordSize;
    LeftFiles files(kMany, true);
    files.leave();
    const auto [events, discarded] = events_and_discarded(recover(files));
    EXPECT_GT(events, LeftFiles::kRingSize / LeftFiles::kRecordSize * 9 / 10);
    EXPECT_EQ(discarded, 0U);
    // A page is in two blocks of 2 KiB, and records may reach into one more.
    files.change("channel0.rings", LeftFiles::place_of(5 * ring::kPageSize), std::string(ring::kPageSize, '\0'));
    files.boot();
    const auto [left, torn] = events_and_discarded(recover(files));
    EXPECT_EQ(left + torn, events);
    EXPECT_GE(torn, ring::kPageSize / LeftFiles::kRecordSize);
    EXPECT_LE(torn, 4 * ring::block_size(LeftFiles::kRingSize) / LeftFiles::kRecordSize);
}

TEST(Recovery, MetadataAreMadeAnewIfTheyAreLost) {
    LeftFiles files(kRecords);
    files.leave();
    files.change("metadata", 0, std::string(100, '\0'));
    EXPECT_EQ(events_and_discarded(recover(files)), Counts(kRecords, 0));
}

TEST(Recovery, RegistryWithoutItsEnd) {
    LeftFiles files(kRecords);
    files.leave();
    // The only event is lost, and so are its records.
    const auto size = std::filesystem::file_size(files.file("registry"));
    files.change("registry", size - 20, std::string(20, '\0'));
    EXPECT_EQ(events_and_discarded(recover(files)), Counts(0, kRecords));
    files.change("registry", 30, std::string(20, '\0'));
    EXPECT_EQ(recover(files).errors.size(), 1U);
}

// It was about to be stored when the recorder was killed.
void plan_packet(LeftFiles& files, std::uint64_t bytes) {
    const std::uint64_t created = files.trace().channels()[0]->rings().created();
    const consumer::StreamProgress before{.timestamp = created, .last_record = created};
    files.progress().save({0, 0}, before);
    files.progress().plan(
        {0, 0}, {.before = before, .size = ctf::kPacketHeaderSize + bytes, .last_timestamp = created + 300'000});
}

TEST(Recovery, PacketThatMayBeStoredIsCutInTheSameWay) {
    LeftFiles files(kRecords);
    plan_packet(files, 300 * LeftFiles::kRecordSize);
    files.leave();
    const auto recovered = recover(files);
    EXPECT_EQ(events_and_discarded(recovered), Counts(kRecords, 0));
    EXPECT_EQ(recovered.traces.front().bytes, 2 * ctf::kPacketHeaderSize + kRecords * LeftFiles::kRecordSize);
}

// Its program has written over the ring, or what was saved of it is of another time.
TEST(Recovery, PacketWhoseRecordsAreOthersIsCutAnew) {
    for (const std::uint64_t bytes : {300 * LeftFiles::kRecordSize + 5, 2 * LeftFiles::kRingSize, ~std::uint64_t{0}}) {
        LeftFiles files(kRecords);
        plan_packet(files, bytes);
        files.leave();
        const auto recovered = recover(files);
        EXPECT_EQ(events_and_discarded(recovered), Counts(kRecords, 0));
        EXPECT_EQ(recovered.traces.front().bytes, ctf::kPacketHeaderSize + kRecords * LeftFiles::kRecordSize);
    }
}

}  // namespace
}  // namespace leat::host
