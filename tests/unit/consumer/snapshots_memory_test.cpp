// A snapshot for which there is no memory. Sanitizers end a program that has none.
#include <gtest/gtest.h>

#include <cstdlib>
#include <string>

#include "consumer/snapshots.hpp"
#include "support/no_output.hpp"
#include "support/resource_limit.hpp"
#include "support/test_rings.hpp"

namespace leat::consumer {
namespace {

// While this object lives, the process gets no more than what its heap has free by now: enough for what is small.
class NoMoreMemory {
  private:
    static rlim_t nothing() {
        constexpr std::size_t kFree = 100U << 10;  // less than what is given back at once
        void* volatile room = std::malloc(kFree);  // NOLINT(*-no-malloc)
        std::free(room);                           // NOLINT(*-no-malloc)
        return 0;
    }

    test::LowerLimit limit_{RLIMIT_AS, nothing()};
};

TEST(SnapshotsMemory, WantOfItIsAnErrorThatPasses) {
    constexpr std::uint64_t kRingSize = 16U << 20;  // with blocks of 512 KiB
    test::TestRings rings(kRingSize, 1, true);
    const std::string staged(4000 + ring::kCopySlack, 'x');
    for (std::uint64_t i = 0; i < kRingSize / 4000; ++i)
        ASSERT_EQ(rings.at(test::kStartOfTime + i)
                      .write_to(rings.own_ring(), {ring::HeaderKind::kCompact, 1}, staged.data(), 4000),
                  ring::WriteOutcome::kWritten);
    ctf::RecordWalker walker(ring::kCompactHeader, 0);
    const std::array<Snapshots::Source, 1> sources{{{.rings = &rings.set(), .walker = &walker}}};
    Snapshots snapshots(sources, ctf::Uuid{7}, nullptr);
    test::NoOutput output;
    const auto take = [&] {
        const auto nothing = []() -> Result<void> { return {}; };
        return snapshots.take(output, 0, {.before_cut = nothing, .after_write = nothing});
    };
    EXPECT_TRUE(take());
    const auto taken = [&] {
        const NoMoreMemory none;
        return take();
    }();
    ASSERT_FALSE(taken);
    EXPECT_EQ(taken.error().kind, ErrorKind::kDiskFull);
    EXPECT_TRUE(take());
}

}  // namespace
}  // namespace leat::consumer
