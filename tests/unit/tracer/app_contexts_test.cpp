// Contexts of the application, as they lie in records.
#include "tracer/app_contexts.hpp"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <csetjmp>
#include <cstring>
#include <string>

#include "leat/context.h"
#include "support/attached_tracer.hpp"
#include "support/skip.hpp"

namespace leat::tracer {
namespace {

using namespace std::string_literals;
using test::AttachedTracer;
using test::Writer;

leat_context_value given{};
void give(const leat_context* /*context*/, leat_context_value* value) { *value = given; }

// A channel with the contexts "test:first" and "test:second", of which the first is provided.
class AppContexts : public testing::TestWithParam<Writer> {
  protected:
    void SetUp() override {
        LEAT_NEEDS(GetParam() == Writer::kOfThread || test::has_rseq(), "rseq");
        wire::AppContextNames names{.count = 2, .unused = 0, .names = {"test:first", "test:second"}};
        const auto message = AttachedTracer::channel_message(AttachedTracer::next_number(), wire::kContextApp);
        channel_ = attach_channel(message, set_.fd(), clock_.fd(), &names);
        ASSERT_NE(channel_, nullptr);
        if (GetParam() == Writer::kOfThread) channel_->has_rseq = false;
        ASSERT_EQ(leat_context_provide(&first_), 0);
        tracer_.switch_to({{.event_id = 1, .channel = channel_->number}});
    }
    void TearDown() override { leat_context_withdraw(&first_); }

    // The contexts in the next record.
    std::string record() {
        constexpr std::size_t kPayload = 100;
        std::vector<ring::RingReader> readers;
        for (std::uint32_t ring = 0; ring < AttachedTracer::geometry().ring_count(); ++ring) {
            readers.push_back(set_.reader(ring));
            (void)readers.back().published();
            readers.back().take(readers.back().published()->head);
        }
        tracer_.emit();
        for (ring::RingReader& reader : readers) {
            const UntrustedBytes bytes = reader.published()->records;
            if (bytes.empty()) continue;
            const std::size_t header =
                (std::to_integer<unsigned>(bytes[0]) & 31) == 31 ? ring::kCompactHeader.extended_size() : 4;
            const UntrustedBytes contexts = bytes.subspan(header, bytes.size() - header - kPayload);
            return {reinterpret_cast<const char*>(contexts.data()), contexts.size()};  // NOLINT
        }
        return "nothing";
    }
    // The text that is recorded of this one.
    std::string recorded(const std::string& text) {
        leat_context_set_string(&given, text.c_str());
        const std::string bytes = record();
        EXPECT_EQ(bytes.front(), LEAT_CONTEXT_STRING);
        EXPECT_EQ(bytes.substr(bytes.size() - 2), "\0\0"s) << "the text ends, and the second context is none";
        return bytes.substr(1, bytes.size() - 3);
    }

    leat_context first_{"test:first", give, nullptr};
    AttachedTracer tracer_;
    ring::SharedClock clock_ = *ring::SharedClock::create();
    ring::RingSet set_ = *ring::RingSet::create(AttachedTracer::geometry(), ring::clock_now(clock_.page()));
    Channel* channel_ = nullptr;
};

INSTANTIATE_TEST_SUITE_P(Both, AppContexts, testing::Values(Writer::kOfCpu, Writer::kOfThread), test::name_of);

TEST_P(AppContexts, EachKindHasItsTag) {
    leat_context_set_int64(&given, -2);
    EXPECT_EQ(record(), "\1\xfe\xff\xff\xff\xff\xff\xff\xff\0"s);
    leat_context_set_uint64(&given, 0x0102030405060708);
    EXPECT_EQ(record(), "\2\x08\7\6\5\4\3\2\1\0"s);
    leat_context_set_double(&given, 1.0);
    EXPECT_EQ(record(), "\3\0\0\0\0\0\0\xf0\x3f\0"s);
    leat_context_set_string(&given, "text");
    EXPECT_EQ(record(), "\4text\0\0"s);
    leat_context_set_string(&given, "");
    EXPECT_EQ(record(), "\4\0\0"s);
}

TEST_P(AppContexts, WhatIsNoValueIsNone) {
    leat_context_set_string(&given, nullptr);
    EXPECT_EQ(record(), "\0\0"s);
    given.kind = LEAT_CONTEXT_STRING;
    EXPECT_EQ(record(), "\0\0"s);
    for (const std::uint32_t kind : {5U, 257U, ~0U}) {
        given.kind = kind;
        EXPECT_EQ(record(), "\0\0"s) << kind;
    }
}

TEST_P(AppContexts, LongTextIsCutBetweenCharacters) {
    const std::string fits(LEAT_CONTEXT_STRING_MAX, 'x');
    EXPECT_EQ(recorded(fits), fits);
    EXPECT_EQ(recorded(fits + "y"), fits);
    EXPECT_EQ(recorded(fits + std::string(1000, 'y')), fits);
    for (const std::string& character : {"\xc3\xa4"s, "\xe2\x82\xac"s, "\xf0\x9f\x98\x80"s}) {
        for (std::size_t inside = 1; inside < character.size(); ++inside) {
            const std::string before(LEAT_CONTEXT_STRING_MAX - inside, 'x');
            EXPECT_EQ(recorded(before + character + "y"), before);
        }
        const std::string whole = std::string(LEAT_CONTEXT_STRING_MAX - character.size(), 'x') + character;
        EXPECT_EQ(recorded(whole + "y"), whole);
        EXPECT_EQ(recorded(whole + character), whole);
    }
    const std::string no_text(1000, '\x80');
    EXPECT_EQ(recorded(no_text), no_text.substr(0, LEAT_CONTEXT_STRING_MAX));
}

TEST_P(AppContexts, AnotherTakesThePlaceAndOnlyItselfIsWithdrawn) {
    leat_context_set_int64(&given, 1);
    const leat_context other{
        "test:first", [](const leat_context*, leat_context_value* value) { leat_context_set_string(value, "o"); },
        nullptr};
    EXPECT_EQ(leat_context_provide(&other), 0);
    EXPECT_EQ(record(), "\4o\0\0"s);
    leat_context_withdraw(&first_);
    EXPECT_EQ(record(), "\4o\0\0"s);
    leat_context_withdraw(&other);
    EXPECT_EQ(record(), "\0\0"s);
}

TEST_P(AppContexts, EventsOfTheFunctionItselfHaveNone) {
    static AttachedTracer* tracer = nullptr;
    tracer = &tracer_;
    const leat_context asking{"test:first",
                              [](const leat_context*, leat_context_value* value) {
                                  static std::vector<char> staged(100 + LEAT_STAGE_SLACK, 'n');
                                  tracer->emit(staged);
                                  leat_context_set_int64(value, 1);
                              },
                              nullptr};
    EXPECT_EQ(leat_context_provide(&asking), 0);
    const std::string both = record();
    EXPECT_EQ(both.substr(0, 2), "\0\0"s);
    EXPECT_EQ(both.substr(both.size() - 10), "\1\1\0\0\0\0\0\0\0\0"s);
    leat_context_withdraw(&asking);
}

TEST(AppContextNames, OthersAreRefused) {
    for (const char* const name : {"", "test", "test:", ":test", "a:b:c", "a b:c", "$app.a:b"}) {
        const leat_context context{name, give, nullptr};
        EXPECT_EQ(leat_context_provide(&context), -1) << name;
    }
    const leat_context nameless{nullptr, give, nullptr};
    EXPECT_EQ(leat_context_provide(&nameless), -1);
}

class AppContextAnswers : public testing::Test {
  protected:
    AppContextAnswers() { make_process_page(); }
    Channel* attach(std::uint32_t contexts, const wire::AppContextNames* names) {
        return attach_channel(AttachedTracer::channel_message(AttachedTracer::next_number(), contexts), set_.fd(),
                              clock_.fd(), names);
    }
    ring::SharedClock clock_ = *ring::SharedClock::create();
    ring::RingSet set_ = *ring::RingSet::create(AttachedTracer::geometry(), ring::clock_now(clock_.page()));
};

TEST_F(AppContextAnswers, ThatMakeNoSenseAreRefused) {
    wire::AppContextNames names{.count = 1, .unused = 0, .names = {"test:first"}};
    EXPECT_NE(attach(wire::kContextApp, &names), nullptr);
    EXPECT_EQ(attach(0, &names), nullptr);
    EXPECT_EQ(attach(wire::kContextApp, nullptr), nullptr);
    for (const std::uint32_t count : {0U, wire::kMaxAppContexts, wire::kMaxAppContexts + 1, ~0U}) {
        names.count = count;
        EXPECT_EQ(attach(wire::kContextApp, &names), nullptr) << count;
    }
    names.count = 1;
    std::memset(names.names[0], 'x', sizeof names.names[0]);
    EXPECT_EQ(attach(wire::kContextApp, &names), nullptr) << "without an end";
}

jmp_buf before_event;

// Deeper in the stack than the events that follow, also where a sanitizer makes frames larger.
__attribute__((noinline)) void emit_deeper(AttachedTracer& tracer) {
    const std::array<char, 4096> room{};
    __asm__ volatile("" : : "r"(room.data()) : "memory");
    tracer.emit();
    __asm__ volatile("" : : "r"(room.data()) : "memory");
}

TEST_P(AppContexts, ProgramThatJumpsOutOfAnEventIsAskedAgain) {
    first_.get = [](const leat_context*, leat_context_value*) { std::longjmp(before_event, 1); };
    if (setjmp(before_event) == 0) emit_deeper(tracer_);
    first_.get = give;
    leat_context_set_uint64(&given, 1);
    EXPECT_EQ(record(), "\2\1\0\0\0\0\0\0\0\0"s);
}

// The child comes back from get(), too, but the ring and the contexts are those of its parent.
TEST_P(AppContexts, ChildThatIsMadeMeanwhileDoesNotWriteAsItsParent) {
    const pid_t parent = ::getpid();
    first_.get = [](const leat_context*, leat_context_value* value) {
        const pid_t child = ::fork();
        if (child > 0) ::waitpid(child, nullptr, 0);
        leat_context_set_int64(value, 7);
    };
    tracer_.emit();
    if (::getpid() != parent) ::_exit(0);
    std::uint64_t records = 0;
    std::uint64_t discarded = 0;
    for (std::uint32_t ring = 0; ring < AttachedTracer::geometry().ring_count(); ++ring) {
        records += set_.reader(ring).record_count();
        discarded += set_.reader(ring).discarded(ring::DiscardReason::kInterrupted);
    }
    EXPECT_EQ(records, 1U);
    EXPECT_EQ(discarded, 1U);
}

}  // namespace
}  // namespace leat::tracer
