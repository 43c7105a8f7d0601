#include "session/sticky_replay.hpp"

#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <optional>
#include <span>

#include "base/pid_namespace.hpp"
#include "ring/clock.hpp"
#include "ring/thread_writer.hpp"
#include "wire/app/sticky_reader.hpp"

namespace leat::session {
namespace {

using ring::DiscardReason;
using ring::RingHeader;
using ring::WriteOutcome;

// The values of a library fill the smallest ring twice. A program may set new ones all the time.
constexpr int kMaxTurns = 4;
constexpr int kMaxLooks = 5;

// As programs name the owners of rings: tracer/ring_owner.cpp.
std::uint64_t own_word() {
    return std::uint64_t{own_pid_namespace()} << 32 | static_cast<std::uint32_t>(::syscall(SYS_gettid));
}

// A ring of a thread that is ours for a while. Programs may do anything to its memory meanwhile: then records are lost,
// and the consumer gives up the ring.
class BorrowedRing {
  public:
    explicit BorrowedRing(const ring::RingSet& set) {
        const std::uint64_t self = own_word();
        for (std::uint32_t index = 0; index < set.geometry().thread_rings; ++index)
            if (claim(set, index, self)) return;
    }
    // The records are visible to the next owner: pairs with L in ring_owner.cpp.
    ~BorrowedRing() {
        if (ring_ != nullptr) std::atomic_ref(ring_->owner).store(0, std::memory_order_release);
    }
    BorrowedRing(const BorrowedRing&) = delete;
    BorrowedRing& operator=(const BorrowedRing&) = delete;

    // Null: all are taken.
    [[nodiscard]] RingHeader* get() const { return ring_; }

  private:
    // L and I, as in ring_owner.cpp.
    bool claim(const ring::RingSet& set, std::uint32_t index, std::uint64_t self) {
        if (!set.map(set.geometry().cpu_rings + index)) return false;
        RingHeader& ring = set.thread_ring(index);
        std::uint64_t nobody = 0;
        if (!std::atomic_ref(ring.owner).compare_exchange_strong(nobody, self, std::memory_order_acquire)) return false;
        if (!set.populate_thread_ring(index)) {
            std::atomic_ref(ring.owner).store(0, std::memory_order_release);
            return false;
        }
        std::atomic_ref used(set.header().thread_rings_used);
        std::uint32_t known = used.load(std::memory_order_relaxed);
        while (known <= index && !used.compare_exchange_weak(known, index + 1, std::memory_order_seq_cst)) {
        }
        ring_ = &ring;
        return true;
    }

    RingHeader* ring_ = nullptr;
};

// What the daemon does not know of the thread that set the value is 0; users are "the kernel does not say". Nobody asks
// the program for its own contexts: there are none.
std::vector<std::byte> contexts_of(const StickyProgram& program, const TraceChannel& channel) {
    constexpr std::uint32_t kUsers = wire::kContextVuid | wire::kContextVeuid | wire::kContextVsuid |
                                     wire::kContextVgid | wire::kContextVegid | wire::kContextVsgid;
    const std::uint32_t contexts = channel.message().contexts;
    std::vector<std::byte> bytes;
    for (const wire::ContextKind& kind : wire::kContextKinds) {
        if ((contexts & kind.bit) == 0) continue;
        const std::size_t at = bytes.size();
        bytes.resize(at + kind.size, (kind.bit & kUsers) != 0 ? std::byte{0xff} : std::byte{0});
        if ((kind.bit & (wire::kContextVpid | wire::kContextVtid)) != 0)
            std::memcpy(bytes.data() + at, &program.vpid, sizeof program.vpid);
        if (kind.bit == wire::kContextProcname)
            std::memcpy(bytes.data() + at, program.procname.data(),
                        std::min<std::size_t>(program.procname.size(), kind.size - 1));
    }
    bytes.insert(bytes.end(), channel.app_context_names().count, static_cast<std::byte>(wire::AppContextTag::kNone));
    return bytes;
}

// Whether contexts and payload are those of the event: programs can put anything into a slot, and a record that cannot
// be read would cost all that come after it in the ring.
bool is_record(const TraceChannel& channel, std::uint32_t id, std::span<const std::byte> content) {
    const ring::RecordHeaderLayout& layout = channel.walker().header();
    std::vector<std::byte> record(layout.extended_size());
    const std::uint64_t tag = layout.all_ones();
    std::memcpy(record.data(), &tag, layout.tag_size);
    std::memcpy(record.data() + layout.tag_size, &id, sizeof id);
    record.insert(record.end(), content.begin(), content.end());
    const ctf::RecordWalker::Walked walked = channel.walker().walk(UntrustedBytes(record));
    return walked.records == 1 && walked.bytes == record.size();
}

// One channel's part.
class ChannelReplay {
  public:
    ChannelReplay(const Trace& trace, const std::function<void()>& drain, const TraceChannel& channel,
                  const StickyProgram& program)
        : trace_(trace), drain_(drain), channel_(channel), program_(program), contexts_(contexts_of(program, channel)) {
        writer_.map.mask = channel.rings().geometry().ring_size - 1;
        writer_.map.form = ring::header_form(static_cast<ring::HeaderKind>(channel.message().header_kind));
        if (channel.rings().geometry().overwrites) writer_.map.overwrite();
    }

    Result<Replayed> run() {
        for (int turn = 1; !is_done_; ++turn) {
            LEAT_TRY(write_values(turn == kMaxTurns));
            drain_();
        }
        return replayed_;
    }

  private:
    struct Known {
        std::uint64_t time;  // ns
        wire::StickyValues values;
    };
    // What the values are at that time. A program that sets one after the other gets them a moment too early, but never
    // too late: the last record of a key must have its last value.
    //
    //     program                           sets "b", its record at 7
    //     we        at 5    read "a"                                     write "a" at 5
    //
    // The consumer has told no stream of that time, as we are its thread.
    [[nodiscard]] Result<Known> look() const {
        const auto read = [this] { return wire::read_sticky_values(program_.control.get(), program_.layout); };
        const auto newest = [](const wire::StickyValues& values) {
            return values.values.empty() ? 0 : values.values.back().order;
        };
        wire::StickyValues before = LEAT_TRY(read());
        for (int looks = 1;; ++looks) {
            const std::uint64_t now = ring::clock_now(trace_.clock().page());
            wire::StickyValues values = LEAT_TRY(read());
            if (newest(values) == newest(before) || looks == kMaxLooks) return Known{now, std::move(values)};
            before = std::move(values);
        }
    }

    Result<void> write_values(bool is_last) {
        const auto [now, known] = LEAT_TRY(look());
        replayed_.not_kept = known.not_kept;
        for (const wire::StickyValue& value : known.values) {
            if (value.order <= done_up_to_) continue;
            if (!write_value(value, now, is_last)) return {};
            done_up_to_ = value.order;
        }
        replayed_.refused += known.unreadable;
        is_done_ = true;
        return {};
    }

    // False: the ring is full.
    bool write_value(const wire::StickyValue& value, std::uint64_t now, bool is_last) {
        const auto orders = program_.orders.find(value.tracepoint);
        if (orders == program_.orders.end()) return true;
        for (const wire::Action& action : orders->second) {
            if (action.channel != channel_.number()) continue;
            std::vector<std::byte> content = contexts_;
            content.insert(content.end(), value.payload.begin(), value.payload.end());
            if (!is_record(channel_, action.event_id, content)) {
                ++replayed_.refused;
            } else if (write(action.event_id, content, now)) {
                ++replayed_.records;
            } else if (!is_last && ring() != nullptr) {
                return false;
            } else {
                count_discarded();
            }
        }
        return true;
    }

    // Most programs have no values when they start, and need no ring.
    RingHeader* ring() {
        if (!ring_) ring_.emplace(channel_.rings());
        return ring_->get();
    }

    bool write(std::uint32_t id, std::span<const std::byte> content, std::uint64_t now) {
        RingHeader* const into = ring();
        if (into == nullptr) return false;
        const auto try_to = [&] {
            return ring::thread_write(writer_, *into, id, content.data(), content.size(), now) ==
                   WriteOutcome::kWritten;
        };
        if (try_to()) return true;
        if (writer_.map.overwrites()) {
            // It was never used.
            std::uint64_t none = 0;
            std::atomic_ref(into->limit).compare_exchange_strong(none, writer_.map.block_size);
            return try_to();
        }
        // The limit may be our own wish to be woken, or that of a ring which was never used. Nobody else moves `tail`.
        const std::uint64_t tail = std::atomic_ref(into->tail).load(std::memory_order_relaxed);
        std::atomic_ref(into->limit).store(tail + writer_.map.size(), std::memory_order_relaxed);
        return try_to();
    }

    void count_discarded() {
        const ring::RingSet& set = channel_.rings();
        RingHeader* const own = ring();
        // A process has so many mappings at most: then there may be rings of CPUs alone.
        const std::uint32_t first = set.map(set.geometry().cpu_rings) ? set.geometry().cpu_rings : 0;
        RingHeader& counting = own != nullptr ? *own : set.ring(first);
        const DiscardReason reason = own != nullptr ? DiscardReason::kRingFull : DiscardReason::kNoRing;
        ++std::atomic_ref(counting.discarded[static_cast<std::uint32_t>(reason)]);
    }

    const Trace& trace_;
    const std::function<void()>& drain_;
    const TraceChannel& channel_;
    const StickyProgram& program_;
    std::vector<std::byte> contexts_;
    std::optional<BorrowedRing> ring_{};
    ring::RecordWriter writer_{};
    std::uint64_t done_up_to_ = 0;
    bool is_done_ = false;
    Replayed replayed_;
};

bool is_wanted(const TraceChannel& channel, const StickyProgram& program) {
    return std::ranges::any_of(program.orders, [&channel](const auto& order) {
        return std::ranges::any_of(
            order.second, [&channel](const wire::Action& action) { return action.channel == channel.number(); });
    });
}

}  // namespace

Result<Replayed> replay_sticky_values(const Trace& trace, const std::function<void()>& drain,
                                      const StickyProgram& program) {
    // Describes what has been enrolled by now.
    drain();
    Replayed all;
    for (const auto& channel : trace.channels()) {
        if (!is_wanted(*channel, program)) continue;
        const Replayed replayed = LEAT_TRY(ChannelReplay(trace, drain, *channel, program).run());
        all.records += replayed.records;
        all.refused += replayed.refused;
        all.not_kept = replayed.not_kept;
    }
    return all;
}

}  // namespace leat::session
