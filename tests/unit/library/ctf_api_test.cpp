// <leat/ctf.h>, as programs call it: with what there is, and with what there is not.
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <leat/ctf.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <leat/ctf.hpp>
#include <memory>
#include <random>
#include <ranges>
#include <string>
#include <vector>

#include "support/scratch_directory.hpp"

namespace leat::library {
namespace {

struct Close {
    void operator()(leat_ctf_reader* reader) const { leat_ctf_close(reader); }
    void operator()(leat_ctf_columns* columns) const { leat_ctf_free_columns(columns); }
};
using Reader = std::unique_ptr<leat_ctf_reader, Close>;
using Columns = std::unique_ptr<leat_ctf_columns, Close>;

const std::filesystem::path kCaptures = std::filesystem::path(LEAT_TEST_DATA) / "captures";
const std::filesystem::path kTwoApps = kCaptures / "live-uid-two-apps/trace";

Reader open(const std::filesystem::path& path, const leat_ctf_options* options = nullptr) {
    const char* const name = path.c_str();
    return Reader(leat_ctf_open(&name, 1, options, nullptr));
}

std::vector<std::filesystem::path> captured_traces() {
    std::vector<std::filesystem::path> traces;
    for (const auto& entry : std::filesystem::recursive_directory_iterator(kCaptures))
        if (entry.path().filename() == "metadata") traces.push_back(entry.path().parent_path());
    return traces;
}

// Touches all that there is of a value. Returns how many values it has in all.
std::size_t walk(const leat_ctf_value* value) {
    std::size_t count = 1;
    std::size_t size = 0;
    const char* const text = leat_ctf_text(value, &size);
    EXPECT_EQ(std::string(text == nullptr ? "" : text, size).size(), size);
    EXPECT_LT(std::strlen(leat_ctf_name(value)), 10'000U);
    (void)(leat_ctf_real(value) + static_cast<double>(leat_ctf_integer(value)));
    const char* labels[2] = {"", ""};  // NOLINT(*-avoid-c-arrays)
    for (std::size_t i = std::min<std::size_t>(2, leat_ctf_labels(value, labels, 2)); i > 0; --i)
        EXPECT_LT(std::strlen(labels[i - 1]), 10'000U);
    const leat_ctf_value* part = leat_ctf_first_part(value);
    for (std::size_t i = 0; i < leat_ctf_part_count(value); ++i, part = leat_ctf_next_part(part)) count += walk(part);
    return count;
}

struct Seen {
    std::size_t events = 0;
    std::size_t values = 0;
    bool has_failed = false;
};

Seen read_all(leat_ctf_reader* reader) {
    Seen seen;
    while (leat_ctf_next(reader) > 0) {
        ++seen.events;
        for (int scope = LEAT_CTF_PACKET_CONTEXT; scope <= LEAT_CTF_FIELDS; ++scope)
            if (const auto* const fields = leat_ctf_get_scope(reader, static_cast<leat_ctf_scope>(scope)))
                seen.values += walk(fields);
        EXPECT_NE(leat_ctf_event_name(reader), nullptr);
        EXPECT_NE(leat_ctf_event_stream(reader), nullptr);
    }
    seen.has_failed = leat_ctf_error(reader) != nullptr;
    return seen;
}

// Reads all columns in pieces; returns the rows.
std::size_t read_columns(leat_ctf_reader* reader, std::uint64_t at_once) {
    std::size_t rows = 0;
    while (const Columns columns{leat_ctf_read_columns(reader, nullptr, 0, at_once)}) {
        const std::uint64_t count = leat_ctf_row_count(columns.get());
        for (std::size_t i = 0; i < leat_ctf_column_count(columns.get()); ++i) {
            const leat_ctf_column& column = *leat_ctf_get_column(columns.get(), i);
            const auto* const data = static_cast<const std::uint64_t*>(column.data);
            for (std::uint64_t row = 0; row < count; ++row) {
                const bool is_missing = column.is_missing != nullptr && column.is_missing[row] != 0;
                EXPECT_TRUE(!is_missing || data[row] == 0);
                if (column.type != LEAT_CTF_COLUMN_TEXT || is_missing) continue;
                EXPECT_LT(data[row], column.text_count);
                const leat_ctf_string& text = column.texts[data[row]];
                EXPECT_EQ(std::string(text.bytes, text.size).size(), text.size);
            }
        }
        rows += count;
        if (count < at_once) break;
    }
    return rows;
}

TEST(CtfApi, EventsAndColumnsOfEveryCapturedTrace) {
    std::size_t events = 0;
    for (const auto& trace : captured_traces()) {
        SCOPED_TRACE(trace);
        const Reader reader = open(trace);
        if (!reader) continue;
        const Seen seen = read_all(reader.get());
        const Reader again = open(trace);
        EXPECT_EQ(read_columns(again.get(), 7), seen.events);
        EXPECT_EQ(leat_ctf_error(again.get()) != nullptr, seen.has_failed);
        EXPECT_GE(seen.values, seen.events);
        events += seen.events;
    }
    EXPECT_GT(events, 1000U);
}

// The events of a trace, and which of them a reader comes to next.
class ApiModel {
  public:
    ApiModel(const std::filesystem::path& trace, std::uint64_t seed) : reader_(open(trace)), random_(seed) {
        const Reader all = open(trace);
        for (Event event; leat_ctf_next(all.get()) > 0;) {
            is_timed_ = leat_ctf_event_time(all.get(), &event.time_ns) == 1;
            events_.push_back({event.time_ns, leat_ctf_event_name(all.get())});
        }
    }
    [[nodiscard]] bool is_timed() const { return is_timed_ && !events_.empty(); }

    void step() {
        switch (random_() % 6) {
            case 0:
                return seek();
            case 1:
                return columns();
            case 2:
                return look();
            default:
                return next();
        }
    }

  private:
    struct Event {
        std::int64_t time_ns = 0;
        std::string name{};
    };

    void next() {
        const bool has_next = place_ < events_.size();
        ASSERT_EQ(leat_ctf_next(reader_.get()), has_next ? 1 : 0);
        has_event_ = has_next;
        if (has_next) ++place_;
        look();
    }

    // Twice the same, if it is asked for twice.
    void look() {
        const char* const name = leat_ctf_event_name(reader_.get());
        ASSERT_EQ(name != nullptr, has_event_);
        if (!has_event_) return;
        const Event& event = events_[place_ - 1];
        std::int64_t time_ns = 0;
        ASSERT_EQ(leat_ctf_event_time(reader_.get(), &time_ns), 1);
        EXPECT_EQ(time_ns, event.time_ns);
        EXPECT_EQ(name, event.name);
        const auto* const fields = leat_ctf_get_scope(reader_.get(), LEAT_CTF_FIELDS);
        EXPECT_TRUE(fields == nullptr || walk(fields) > 0);
    }

    void seek() {
        const Event& event = events_[random_() % events_.size()];
        const std::int64_t time_ns = event.time_ns + static_cast<std::int64_t>(random_() % 3) - 1;
        ASSERT_EQ(leat_ctf_seek(reader_.get(), time_ns), 0);
        place_ =
            static_cast<std::size_t>(std::ranges::lower_bound(events_, time_ns, {}, &Event::time_ns) - events_.begin());
        has_event_ = false;
    }

    void columns() {
        const char* const names[] = {"time_ns", "name"};  // NOLINT(*-avoid-c-arrays)
        const std::uint64_t most = random_() % 5;
        const Columns columns{leat_ctf_read_columns(reader_.get(), names, 2, most)};
        ASSERT_NE(columns, nullptr);
        const std::uint64_t rows = leat_ctf_row_count(columns.get());
        ASSERT_EQ(rows, std::min<std::uint64_t>(most, events_.size() - place_));
        const leat_ctf_column& times = *leat_ctf_get_column(columns.get(), 0);
        const leat_ctf_column& texts = *leat_ctf_get_column(columns.get(), 1);
        for (std::uint64_t row = 0; row < rows; ++row) {
            const Event& event = events_[place_++];
            EXPECT_EQ(static_cast<const std::int64_t*>(times.data)[row], event.time_ns);
            const leat_ctf_string& name = texts.texts[static_cast<const std::uint64_t*>(texts.data)[row]];
            EXPECT_EQ(std::string(name.bytes, name.size), event.name);
        }
        if (most == 0) return;
        has_event_ = rows == most;  // the last row's
    }

    Reader reader_;
    std::mt19937_64 random_;
    std::vector<Event> events_{};
    bool is_timed_ = false;
    std::size_t place_ = 0;
    bool has_event_ = false;
};

TEST(CtfApi, CallsInAnyOrderGiveTheEventsInTheirs) {
    std::size_t timed = 0;
    for (const auto& trace : captured_traces()) {
        SCOPED_TRACE(trace);
        const Reader whole = open(trace);
        if (!whole || read_all(whole.get()).has_failed) continue;
        ApiModel model(trace, ++timed);
        for (int i = 0; i < 200 && model.is_timed() && !HasFatalFailure(); ++i) model.step();
    }
    EXPECT_GT(timed, 30U);
}

// Bytes that were changed anywhere, and files that were cut: an error, or other events, but no harm.
TEST(CtfApi, DamagedTracesDoNoHarm) {
    std::mt19937_64 random(1);  // NOLINT(*-msc51-cpp): the same each time
    const auto traces = captured_traces();
    std::size_t failed = 0;
    for (int round = 0; round < 60; ++round) {
        const test::ScratchDirectory scratch;
        const auto copy = scratch.path() / "trace";
        std::filesystem::copy(traces[random() % traces.size()], copy, std::filesystem::copy_options::recursive);
        std::vector<std::filesystem::path> files;
        for (const auto& entry : std::filesystem::recursive_directory_iterator(copy))
            if (entry.is_regular_file() && entry.file_size() != 0) files.push_back(entry.path());
        std::ranges::sort(files);
        const auto& file = files[random() % files.size()];
        const std::uint64_t size = std::filesystem::file_size(file);
        if (random() % 4 == 0) {
            std::filesystem::resize_file(file, random() % size);
        } else {
            std::fstream stream(file, std::ios::in | std::ios::out | std::ios::binary);
            for (int i = 0; i < 3; ++i) {
                stream.seekp(static_cast<std::streamoff>(random() % size));
                stream.put(static_cast<char>(random()));
            }
        }
        const Reader reader = open(copy);
        if (!reader) {
            ++failed;
            continue;
        }
        const Seen seen = read_all(reader.get());
        failed += seen.has_failed ? 1 : 0;
        // An error stays, and a seek begins anew.
        EXPECT_EQ(leat_ctf_next(reader.get()), seen.has_failed ? -1 : 0);
        const bool is_timed = leat_ctf_seek(reader.get(), 0) == 0;
        EXPECT_TRUE(!is_timed || read_columns(reader.get(), 1000) <= seen.events);
    }
    EXPECT_GT(failed, 10U);
}

TEST(CtfApi, WhoeverReadsMayBeInterrupted) {
    const Reader reader = open(kTwoApps);
    ASSERT_NE(reader, nullptr);
    int calls = 0;
    leat_ctf_set_interrupt(
        reader.get(), [](void* count) { return ++*static_cast<int*>(count) == 1 ? 0 : 1; }, &calls);
    EXPECT_EQ(leat_ctf_next(reader.get()), -1) << "before any event";
    EXPECT_STREQ(leat_ctf_error(reader.get()), "interrupted");
    EXPECT_EQ(calls, 2);
    EXPECT_EQ(leat_ctf_next(reader.get()), -1);
    // It stays so over a seek, until it is taken back.
    ASSERT_EQ(leat_ctf_seek(reader.get(), 0), 0);
    EXPECT_EQ(leat_ctf_read_columns(reader.get(), nullptr, 0, 1000), nullptr);
    leat_ctf_set_interrupt(reader.get(), nullptr, nullptr);
    ASSERT_EQ(leat_ctf_seek(reader.get(), 0), 0);
    const Seen seen = read_all(reader.get());
    EXPECT_FALSE(seen.has_failed);
    EXPECT_GT(seen.events, 0U);
    EXPECT_EQ(calls, 3);
}

TEST(CtfApi, NothingIsNothing) {
    leat_ctf_set_interrupt(nullptr, nullptr, nullptr);
    EXPECT_EQ(leat_ctf_next(nullptr), 0);
    EXPECT_EQ(leat_ctf_seek(nullptr, 0), -1);
    EXPECT_EQ(leat_ctf_error(nullptr), nullptr);
    EXPECT_EQ(leat_ctf_get_kind(nullptr), LEAT_CTF_NONE);
    EXPECT_STREQ(leat_ctf_name(nullptr), "");
    EXPECT_EQ(leat_ctf_text(nullptr, nullptr), nullptr);
    EXPECT_EQ(leat_ctf_labels(nullptr, nullptr, 0), 0U);
    EXPECT_EQ(leat_ctf_member(nullptr, "x"), nullptr);
    EXPECT_EQ(leat_ctf_find(nullptr, nullptr), nullptr);
    EXPECT_EQ(leat_ctf_first_part(nullptr), nullptr);
    EXPECT_EQ(leat_ctf_read_columns(nullptr, nullptr, 0, 1), nullptr);
    EXPECT_EQ(leat_ctf_get_column(nullptr, 0), nullptr);
    leat_ctf_free_columns(nullptr);
    leat_ctf_close(nullptr);

    // Before the first event, and after the last.
    const Reader reader = open(kTwoApps);
    ASSERT_NE(reader, nullptr);
    for (int i = 0; i < 2; ++i) {
        std::int64_t number = 17;
        EXPECT_EQ(leat_ctf_event_name(reader.get()), nullptr);
        EXPECT_EQ(leat_ctf_event_stream(reader.get()), nullptr);
        EXPECT_EQ(leat_ctf_event_time(reader.get(), &number), 0);
        EXPECT_EQ(leat_ctf_environment_number(reader.get(), "vpid", &number), 0);
        EXPECT_EQ(leat_ctf_environment_text(reader.get(), "hostname"), nullptr);
        EXPECT_EQ(leat_ctf_find(reader.get(), "n"), nullptr);
        EXPECT_EQ(leat_ctf_get_scope(reader.get(), LEAT_CTF_FIELDS), nullptr);
        EXPECT_EQ(number, 17);
        while (leat_ctf_next(reader.get()) == 1) continue;
    }
}

TEST(CtfApi, WhatAnEventIs) {
    const Reader reader = open(kTwoApps);
    ASSERT_EQ(leat_ctf_next(reader.get()), 1);
    EXPECT_STREQ(leat_ctf_event_name(reader.get()), "alpha:tick");
    std::int64_t number = 0;
    EXPECT_EQ(leat_ctf_event_time(reader.get(), &number), 1);
    EXPECT_EQ(number, 1'795'182'197'428'915'654);
    EXPECT_EQ(leat_ctf_event_log_level(reader.get(), &number), 1);
    EXPECT_EQ(number, 13);
    EXPECT_STREQ(leat_ctf_environment_text(reader.get(), "hostname"), "tracer1");
    EXPECT_EQ(leat_ctf_environment_text(reader.get(), "no such line"), nullptr);
    EXPECT_EQ(leat_ctf_environment_text(reader.get(), nullptr), nullptr);
    EXPECT_EQ(leat_ctf_find(reader.get(), nullptr), nullptr);

    const auto* const n = leat_ctf_find(reader.get(), "n");
    EXPECT_STREQ(leat_ctf_name(n), "n");
    EXPECT_EQ(leat_ctf_integer(n), 0);
    EXPECT_EQ(leat_ctf_text(n, nullptr), nullptr);
    const auto* const who = leat_ctf_member(leat_ctf_get_scope(reader.get(), LEAT_CTF_FIELDS), "who");
    std::size_t size = 0;
    const char* const text = leat_ctf_text(who, &size);
    EXPECT_EQ(std::string(text, size), "one");
    EXPECT_EQ(leat_ctf_get_kind(who), LEAT_CTF_TEXT);
    EXPECT_EQ(leat_ctf_integer(who), 0);
    EXPECT_EQ(leat_ctf_part_count(who), 0U);
    EXPECT_NE(leat_ctf_find(reader.get(), "cpu_id"), nullptr);
    EXPECT_EQ(leat_ctf_find(reader.get(), "who_else"), nullptr);
}

TEST(CtfApi, ErrorsSayWhatIsWrong) {
    char error[LEAT_CTF_ERROR_SIZE] = "";  // NOLINT(*-avoid-c-arrays)
    const char* const nowhere = "/nowhere";
    EXPECT_EQ(leat_ctf_open(&nowhere, 1, nullptr, error), nullptr);
    EXPECT_NE(std::string(error).find("/nowhere"), std::string::npos) << error;
    EXPECT_EQ(leat_ctf_open(nullptr, 0, nullptr, error), nullptr);
    EXPECT_STREQ(error, "no path of a trace was given");
    leat_ctf_options options = LEAT_CTF_OPTIONS;
    options.filter = "no_such_field == 1";
    const char* const path = kTwoApps.c_str();
    EXPECT_EQ(leat_ctf_open(&path, 1, &options, error), nullptr);
    EXPECT_NE(std::string(error).find("no_such_field"), std::string::npos) << error;
    const std::string long_path(2 * LEAT_CTF_ERROR_SIZE, 'x');
    const char* const long_name = long_path.c_str();
    EXPECT_EQ(leat_ctf_open(&long_name, 1, nullptr, error), nullptr);
    EXPECT_EQ(std::strlen(error), std::size_t{LEAT_CTF_ERROR_SIZE} - 1);

    const Reader reader = open(kTwoApps);
    EXPECT_EQ(leat_ctf_next(reader.get()), 1);
    // An error about columns is no error of the trace.
    const char* const title = "no_such_field";
    EXPECT_EQ(leat_ctf_read_columns(reader.get(), &title, 1, 1), nullptr);
    EXPECT_NE(leat_ctf_error(reader.get()), nullptr);
    EXPECT_EQ(leat_ctf_next(reader.get()), 1);
    EXPECT_EQ(leat_ctf_error(reader.get()), nullptr);
}

// So that views of C++20 take it.
static_assert(std::ranges::input_range<ctf::reader>);

TEST(CtfApi, ReaderIsARangeOfEvents) {
    ctf::reader reader(kTwoApps.string());
    std::size_t events = 0;
    for (const ctf::event event : reader | std::views::take(3)) events += event.name().empty() ? 0 : 1;
    EXPECT_EQ(events, 3U);
}

// Of a newer program, which may know more options, and of one that says nothing of their size.
TEST(CtfApi, OptionsThatAreNotKnownAreRefused) {
    char error[LEAT_CTF_ERROR_SIZE] = "";  // NOLINT(*-avoid-c-arrays)
    struct Newer {
        leat_ctf_options known = LEAT_CTF_OPTIONS;
        std::uint64_t more = 0;
    } newer;
    newer.known.size = sizeof newer;
    const char* const path = kTwoApps.c_str();
    EXPECT_NE(open(kTwoApps, &newer.known).get(), nullptr);
    newer.more = 1;
    EXPECT_EQ(leat_ctf_open(&path, 1, &newer.known, error), nullptr);
    EXPECT_NE(std::string(error).find("does not know"), std::string::npos) << error;
    leat_ctf_options zeros{};
    EXPECT_EQ(leat_ctf_open(&path, 1, &zeros, error), nullptr);
    EXPECT_NE(std::string(error).find("LEAT_CTF_OPTIONS"), std::string::npos) << error;
}

TEST(CtfApi, SeekGoesToTheFirstEventOfATime) {
    std::vector<std::int64_t> times;
    const Reader reader = open(kTwoApps);
    std::int64_t time = 0;
    while (leat_ctf_next(reader.get()) == 1 && leat_ctf_event_time(reader.get(), &time) == 1) times.push_back(time);
    ASSERT_GT(times.size(), 10U);
    for (std::size_t i = times.size(); i-- > 0;) {
        for (const std::int64_t early : {std::int64_t{0}, std::int64_t{1}}) {
            const auto expected = std::ranges::lower_bound(times, times[i] - early) - times.begin();
            ASSERT_EQ(leat_ctf_seek(reader.get(), times[i] - early), 0);
            ASSERT_EQ(leat_ctf_next(reader.get()), 1);
            leat_ctf_event_time(reader.get(), &time);
            EXPECT_EQ(time, times[static_cast<std::size_t>(expected)]);
            std::size_t left = 1;
            while (leat_ctf_next(reader.get()) == 1) ++left;
            EXPECT_EQ(left, times.size() - static_cast<std::size_t>(expected));
        }
    }
    ASSERT_EQ(leat_ctf_seek(reader.get(), times.back() + 1), 0);
    EXPECT_EQ(leat_ctf_next(reader.get()), 0);
}

// Events that the filter leaves out have no say in it.
TEST(CtfApi, TypeOfAColumnIsThatOfWhatMayCome) {
    const test::ScratchDirectory trace;
    std::ofstream(trace.path() / "metadata") << R"(/* CTF 1.8 */
        trace { major = 1; minor = 8; byte_order = le; packet.header := struct { integer { size = 32; } magic; }; };
        stream { event.header := struct { integer { size = 32; } id; }; };
        event { name = "number"; id = 0; fields := struct { integer { size = 32; } n; }; };
        event { name = "text"; id = 1; fields := struct { string n; }; };
        event { name = "neither"; id = 2; fields := struct { integer { size = 8; } other; }; };)";
    const auto type_of = [&](const char* filter) {
        leat_ctf_options options = LEAT_CTF_OPTIONS;
        options.filter = filter;
        const Reader reader = open(trace.path(), &options);
        const char* const name = "n";
        const Columns columns(leat_ctf_read_columns(reader.get(), &name, 1, 1));
        // There are none, nor any more.
        const Columns at_the_end(leat_ctf_read_columns(reader.get(), &name, 1, 1));
        EXPECT_EQ(leat_ctf_get_column(columns.get(), 0)->type, leat_ctf_get_column(at_the_end.get(), 0)->type);
        return leat_ctf_get_column(columns.get(), 0)->type;
    };
    EXPECT_EQ(type_of(nullptr), LEAT_CTF_COLUMN_TEXT);
    EXPECT_EQ(type_of("$name == \"number\""), LEAT_CTF_COLUMN_INT64);
    EXPECT_EQ(type_of("$name == \"text\""), LEAT_CTF_COLUMN_TEXT);
    EXPECT_EQ(type_of("n > 3"), LEAT_CTF_COLUMN_TEXT);
    EXPECT_EQ(type_of("$name == \"neither\""), LEAT_CTF_COLUMN_TEXT);
}

// The environment has a say where an event has no such context.
TEST(CtfApi, TypeOfAColumnIsThatOfTheContextThatAllEventsHave) {
    const auto type_of = [](const char* context_of_other) {
        const test::ScratchDirectory trace;
        std::ofstream(trace.path() / "metadata") << fmt::format(R"(/* CTF 1.8 */
            trace {{ major = 1; minor = 8; byte_order = le; packet.header := struct {{ integer {{ size = 32; }} magic; }}; }};
            env {{ vpid = 11; }};
            stream {{ event.header := struct {{ integer {{ size = 32; }} id; }}; }};
            event {{ name = "one"; id = 0; context := struct {{ integer {{ size = 64; }} vpid; }}; }};
            event {{ name = "other"; id = 1; context := struct {{ integer {{ size = 64; }} {}; }}; }};)",
                                                                context_of_other);
        const Reader reader = open(trace.path());
        const char* const name = "vpid";
        const Columns columns(leat_ctf_read_columns(reader.get(), &name, 1, 1));
        return leat_ctf_get_column(columns.get(), 0)->type;
    };
    EXPECT_EQ(type_of("vpid"), LEAT_CTF_COLUMN_UINT64);
    EXPECT_EQ(type_of("another"), LEAT_CTF_COLUMN_TEXT);
}

// A name of CTF 2 may be any text. What it is called is how to ask for it.
TEST(CtfApi, ColumnIsFoundByTheTitleThatItHas) {
    const test::ScratchDirectory trace;
    std::ofstream metadata(trace.path() / "metadata");
    const std::string integer =
        R"({"type": "fixed-length-unsigned-integer", "length": 8, "byte-order": "little-endian", "alignment": 8})";
    for (const std::string& fragment :
         {std::string(R"({"type": "preamble", "version": 2})"), std::string(R"({"type": "trace-class"})"),
          std::string(R"({"type": "data-stream-class"})"),
          fmt::format(R"({{"type": "event-record-class", "name": "e", "payload-field-class": {{"type": "structure",
              "member-classes": [{{"name": "a.b", "field-class": {0}}}, {{"name": "größe", "field-class": {0}}},
                                 {{"name": "", "field-class": {0}}}]}}}})",
                      integer)})
        metadata << '\x1e' << fragment << '\n';
    metadata.close();
    const Reader reader = open(trace.path());
    const Columns all(leat_ctf_read_columns(reader.get(), nullptr, 0, 1));
    ASSERT_GT(leat_ctf_column_count(all.get()), 3U);
    for (std::size_t i = 0; i < leat_ctf_column_count(all.get()); ++i) {
        const char* const name = leat_ctf_get_column(all.get(), i)->name;
        const Columns columns(leat_ctf_read_columns(reader.get(), &name, 1, 1));
        ASSERT_NE(columns, nullptr) << name;
        EXPECT_STREQ(leat_ctf_get_column(columns.get(), 0)->name, name);
    }
}

TEST(CtfApi, NamesThatAreMissingAreErrors) {
    char error[LEAT_CTF_ERROR_SIZE];  // NOLINT(*-avoid-c-arrays)
    const char* const nothing = nullptr;
    EXPECT_EQ(leat_ctf_open(&nothing, 1, nullptr, error), nullptr);
    EXPECT_STREQ(error, "no path of a trace was given");
    EXPECT_EQ(leat_ctf_open(nullptr, 1, nullptr, error), nullptr);
    const test::ScratchDirectory trace;
    std::ofstream(trace.path() / "metadata")
        << "/* CTF 1.8 */ trace { major = 1; minor = 8; byte_order = le; }; stream { };";
    const Reader reader = open(trace.path());
    EXPECT_EQ(leat_ctf_read_columns(reader.get(), &nothing, 1, 1), nullptr);
    EXPECT_STREQ(leat_ctf_error(reader.get()), "the name of a column is missing");
    leat_ctf_get_losses(reader.get(), nullptr);
}

}  // namespace
}  // namespace leat::library
