// Payloads that come in a register.
#include <gtest/gtest.h>

#include <cstring>
#include <string>

#include "support/given_writers.hpp"
#include "support/skip.hpp"
#include "support/test_rings.hpp"

namespace leat::ring {
namespace {

using test::OnOneCpu;
using test::TestRings;
using test::TestWriter;

class WordRecords : public testing::Test {
  protected:
    void SetUp() override { LEAT_NEEDS(test::has_rseq(), "rseq"); }

    WriteOutcome write(RecordWriter& with, const std::string& payload, std::uint32_t id = 1) {
        return test::leat_rseq_write_words(&with, id, &word_, nullptr, payload.size(), 1, test::words_of(payload));
    }
    [[nodiscard]] RingHeader& header() const { return *rings_.map().rings[on_one_cpu_.cpu()]; }
    // All that is in the ring, and not read.
    [[nodiscard]] std::string bytes() const {
        const auto* const records = reinterpret_cast<const char*>(&header()) + kPageSize;  // NOLINT(*-reinterpret-cast)
        return {records, header().head};
    }

    OnOneCpu on_one_cpu_;
    TestRings rings_;
    std::uint32_t word_ = 1;
};

TEST_F(WordRecords, OfEverySizeInEveryForm) {
    for (const HeaderKind kind : {HeaderKind::kCompact, HeaderKind::kTiny, HeaderKind::kLarge}) {
        for (const std::string_view contexts :
             {"", "contexts", "contexts that are longer than two blocks of sixteen"}) {
            for (const std::uint32_t id : {1U, 100'000U}) {
                TestRings in_register;
                TestRings in_memory;
                std::string payload = "sixteen bytes..!";
                for (; !payload.empty(); payload.pop_back()) {
                    TestWriter with(in_register.map(), kind, contexts);
                    ASSERT_EQ(write(*with.get(), payload, id), WriteOutcome::kWritten);
                    ASSERT_EQ(in_memory.write(test::Writer::kOfCpu, {kind, id}, payload, contexts),
                              WriteOutcome::kWritten);
                }
                const RingHeader& one = *in_register.map().rings[on_one_cpu_.cpu()];
                const RingHeader& other = *in_memory.map().rings[on_one_cpu_.cpu()];
                ASSERT_EQ(one.head, other.head);
                ASSERT_EQ(one.next_records, other.next_records);
                ASSERT_EQ(std::memcmp(reinterpret_cast<const char*>(&one) + kPageSize,    // NOLINT(*-reinterpret-cast)
                                      reinterpret_cast<const char*>(&other) + kPageSize,  // NOLINT(*-reinterpret-cast)
                                      one.head),
                          0);
            }
        }
    }
}

TEST_F(WordRecords, SwitchedOffOrWithoutRoomIsNotWritten) {
    TestWriter with(rings_.map(), HeaderKind::kCompact);
    word_ = 2;
    EXPECT_EQ(write(*with.get(), "twelve bytes"), WriteOutcome::kChanged);
    word_ = 1;
    header().limit = 0;
    EXPECT_EQ(write(*with.get(), "twelve bytes"), WriteOutcome::kNoRoom);
    EXPECT_EQ(bytes(), "");
}

}  // namespace
}  // namespace leat::ring
