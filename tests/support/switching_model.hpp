// A model of daemons that switch tracepoints while the program runs: each lane names channels in any number, and some
// are attached. The program emits, also from signal handlers and while a daemon switches. The model knows which record
// must be in which ring, and reports any that is lost and not counted, is there twice, or is another channel's. Unit
// tests draw the steps from random numbers, a fuzz target from its input.
#pragma once

#include <fmt/format.h>
#include <pthread.h>
#include <signal.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdint>
#include <cstring>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "base/unique_fd.hpp"
#include "leat/abi.h"
#include "ring/clock.hpp"
#include "ring/ring_set.hpp"
#include "ring/shared_clock.hpp"
#include "support/model.hpp"
#include "support/rseq.hpp"
#include "tracer/channel.hpp"
#include "tracer/control_memory.hpp"
#include "tracer/process_page.hpp"
#include "tracer/shared_thread.hpp"
#include "tracer/thread_state.hpp"
#include "wire/app/control_file.hpp"

namespace leat::test {

// A record as a ring has it. Its payload begins with the number of its event.
struct SwitchedRecord {
    std::uint32_t id;
    std::uint64_t event;
};

// A channel of one lane, and what its consumer reads.
class SwitchedChannel {
  public:
    SwitchedChannel(std::uint32_t number, ring::HeaderKind kind, std::uint32_t contexts, bool has_rseq,
                    bool sees_vforks)
        : number_(number), kind_(kind), contexts_(contexts) {
        wire::ChannelMessage message{};
        message.number = number;
        message.header_kind = static_cast<std::uint16_t>(kind);
        message.contexts = contexts;
        message.ring_size = kRingSize;
        message.cpu_ring_count = kGeometry.cpu_rings;
        message.thread_ring_count = kGeometry.thread_rings;
        channel_ = tracer::attach_channel(message, set_.fd(), clock_.fd());
        if (channel_ == nullptr) return;
        if (!has_rseq) channel_->has_rseq = false;
        channel_->sees_vforks = sees_vforks;
        for (std::uint32_t i = 0; i < kGeometry.ring_count(); ++i) readers_.push_back(set_.reader(i));
    }

    // In another history, it would be in the way.
    ~SwitchedChannel() { tracer::detach_channel(number_); }
    SwitchedChannel(const SwitchedChannel&) = delete;
    SwitchedChannel& operator=(const SwitchedChannel&) = delete;

    static constexpr std::uint64_t kRingSize = ring::kMinRingSize;

    [[nodiscard]] bool is_attached() const { return channel_ != nullptr; }
    [[nodiscard]] bool has_rseq() const { return channel_->has_rseq; }
    [[nodiscard]] std::uint32_t number() const { return number_; }
    [[nodiscard]] std::uint64_t discarded() const {
        std::uint64_t sum = 0;
        for (const ring::RingReader& reader : readers_) sum += reader.discarded();
        return sum;
    }

    // Takes all records, whose sizes `size_of(event)` says. Empty: one of them makes no sense. Asks to be woken
    // `wake_after` bytes later.
    template <class SizeOf>
    std::optional<std::vector<SwitchedRecord>> take(const SizeOf& size_of, const void* ip, std::uint64_t wake_after) {
        std::vector<SwitchedRecord> records;
        for (ring::RingReader& reader : readers_) {
            const auto published = reader.published();
            if (!published) return std::nullopt;
            UntrustedBytes left = published->records;
            while (!left.empty())
                if (!take_one(left, size_of, ip, records)) return std::nullopt;
            reader.release(published->head, wake_after);
        }
        return records;
    }

  private:
    static inline const ring::RingSetGeometry kGeometry{
        .ring_size = kRingSize, .cpu_rings = ring::possible_cpus(), .thread_rings = tracer::kGuestRings};

    template <class SizeOf>
    bool take_one(UntrustedBytes& left, const SizeOf& size_of, const void* ip, std::vector<SwitchedRecord>& records) {
        const ring::RecordHeaderLayout& layout = ring::header_layout(kind_);
        const std::size_t contexts_size = wire::context_size(contexts_);
        const auto value_at = [&](std::size_t at, auto value) {
            std::memcpy(&value, left.data() + at, sizeof value);
            return value;
        };
        if (left.size() < layout.short_size + contexts_size + 8) return false;
        const std::uint64_t tag = value_at(0, std::uint32_t{}) & layout.all_ones();
        const bool is_extended = tag == layout.all_ones();
        const std::size_t header_size = is_extended ? layout.extended_size() : layout.short_size;
        if (left.size() < header_size + contexts_size + 8) return false;
        const auto id = is_extended ? value_at(layout.tag_size, std::uint32_t{}) : static_cast<std::uint32_t>(tag);
        const std::uint64_t event = value_at(header_size + contexts_size, std::uint64_t{});
        if (!are_contexts(left.subspan(header_size, contexts_size), ip)) return false;
        const std::size_t size = header_size + contexts_size + size_of(event);
        if (left.size() < size) return false;
        left = left.subspan(size);
        records.push_back({id, event});
        return true;
    }

    // `ip`: nullptr where it may be any.
    [[nodiscard]] bool are_contexts(UntrustedBytes bytes, const void* ip) const {
        const auto is = [&](auto value) { return std::memcmp(bytes.data(), &value, sizeof value) == 0; };
        const auto is_right = [&](std::uint32_t context) {
            if (context == wire::kContextVpid) return is(::getpid());
            if (context == wire::kContextVtid) return is(::gettid());
            if (context == wire::kContextPthreadId) return is(::pthread_self());
            if (context == wire::kContextVuid) return is(::getuid());
            if (context == wire::kContextVegid) return is(::getegid());
            return context != wire::kContextIp || ip == nullptr || is(ip);
        };
        for (const wire::ContextKind& kind : wire::kContextKinds) {
            if ((contexts_ & kind.bit) == 0) continue;
            if (!is_right(kind.bit)) return false;
            bytes = bytes.subspan(kind.size);
        }
        return true;
    }

    std::uint32_t number_;
    ring::HeaderKind kind_;
    std::uint32_t contexts_;
    ring::SharedClock clock_ = *ring::SharedClock::create();
    ring::RingSet set_ = *ring::RingSet::create(kGeometry, ring::clock_now(clock_.page()));
    tracer::Channel* channel_ = nullptr;
    std::vector<ring::RingReader> readers_{};
};

// What a signal handler emits: a tracepoint's events, with numbers from `first_event` on.
struct SwitchedHandler {
    leat_tracepoint* tracepoint = nullptr;
    std::uint64_t first_event = 0;
    std::uint64_t count = 0;
};

class SwitchingModel {
  public:
    explicit SwitchingModel(Choose choose) : choose_(std::move(choose)) {
        tracer::make_process_page();
        make_memory();
    }
    ~SwitchingModel() { give_memory_back(); }
    SwitchingModel(const SwitchingModel&) = delete;
    SwitchingModel& operator=(const SwitchingModel&) = delete;

    // Takes one random step.
    void step() {
        const std::uint64_t what = choose_(32);
        if (what < 6)
            attach();
        else if (what < 14)
            switch_any();
        else if (what < 22)
            emit_some();
        else if (what < 25)
            emit_inside_another();
        else if (what < 27)
            emit_with_handler();
        else if (what < 28)
            emit_while_switched();
        else if (what < 29)
            emit_as_shared();
        else if (what < 30)
            tracer::begin_new_generation();
        else if (what < 31)
            next_daemon();
        else
            make_memory_anew();
        check();
    }
    // Attaches more channels than a process keeps, and emits once more. No step may follow.
    void finish() {
        if (choose_(4) == 0)
            while (channels_.size() < kMostChannels) attach();
        emit_some();
        check();
    }

    [[nodiscard]] const std::string& violation() const { return violation_; }
    // What has happened.
    [[nodiscard]] std::uint64_t written() const { return written_; }
    [[nodiscard]] std::uint64_t discarded() const { return discarded_; }
    [[nodiscard]] std::uint64_t not_attached() const { return all_not_attached_; }
    [[nodiscard]] std::uint64_t in_handlers() const { return in_handlers_; }
    [[nodiscard]] std::uint64_t while_switched() const { return while_switched_; }

  private:
    static constexpr std::size_t kTracepoints = 3;
    static constexpr std::size_t kMostChannels = 70;
    static constexpr std::size_t kMostInHandler = 100;

    // By channel: the event's id there.
    using Actions = std::map<std::uint32_t, std::uint32_t>;

    struct Emitted {
        std::size_t tracepoint;
        std::uint64_t size;
        bool is_inside;  // of another event of this thread
        // A list that a lane changed to meanwhile, and back.
        std::optional<std::uint32_t> changing_lane{};
    };

    void fail(std::string what) {
        if (violation_.empty()) violation_ = std::move(what);
    }

    // Control memory, and a daemon on each lane.

    void make_memory() {
        std::array<const leat_tracepoint*, kTracepoints> list{};
        for (std::size_t i = 0; i < kTracepoints; ++i) list[i] = &tracepoints_[i];
        int fd = -1;
        memory_ = tracer::make_control_memory(list.data(), list.size(), true, fd);
        if (memory_ == nullptr) return fail("no control memory");
        memory_fd_ = UniqueFd(fd);
        for (std::size_t i = 0; i < kTracepoints; ++i) tracepoints_[i].word = &memory_->entry(i).word;
        controls_.clear();
        for (std::uint32_t lane = 0; lane < wire::kLanes; ++lane) controls_.push_back(open(lane));
        lists_ = {};
        not_attached_ = {};
    }
    void give_memory_back() {
        for (leat_tracepoint& tracepoint : tracepoints_) tracepoint.word = &tracepoint.off;
        tracer::give_back(std::exchange(memory_, nullptr));
    }
    void make_memory_anew() {
        give_memory_back();
        lists_ = {};
        emit(choose_(kTracepoints), 8);
        make_memory();
    }
    [[nodiscard]] wire::ControlFile open(std::uint32_t lane) const {
        return *wire::ControlFile::open(UniqueFd(::dup(memory_fd_.get())), static_cast<wire::Lane>(lane));
    }
    void next_daemon() {
        const auto lane = static_cast<std::uint32_t>(choose_(wire::kLanes));
        controls_[lane] = open(lane);
    }

    // Channels.

    void attach() {
        if (channels_.size() == kMostChannels) return;
        // No number stands for two, those of other tests included. Some would have the same place.
        static std::uint32_t next = 1U << 20;
        const std::uint32_t number =
            std::exchange(next, next + (choose_(3) == 0 ? 64 : 1)) << 2 | static_cast<std::uint32_t>(choose_(3));
        constexpr std::array kContexts{0U, wire::kDefaultContexts, wire::kAllContexts,
                                       wire::kAllContexts & ~wire::kContextIp};
        const auto kind = choose_(2) == 0 ? ring::HeaderKind::kCompact : ring::HeaderKind::kLarge;
        const std::uint32_t contexts = kContexts[choose_(kContexts.size())];
        const bool has_rseq = test::has_rseq() && choose_(3) != 0;
        channels_.push_back(std::make_unique<SwitchedChannel>(number, kind, contexts, has_rseq, choose_(4) != 0));
        discarded_before_.push_back(0);
        if (!channels_.back()->is_attached()) fail("a channel cannot be attached");
    }
    // Others came that have taken its place.
    [[nodiscard]] static bool is_kept(std::uint32_t number) { return tracer::find_channel(number) != nullptr; }

    // Lists.

    std::uint32_t any_id() {
        constexpr std::array<std::uint32_t, 8> kIds{0, 1, 30, 31, 32, 0xfffe, 0xffff, 100'000};
        return kIds[choose_(kIds.size())];
    }
    Actions any_list(std::uint32_t lane, bool only_kept) {
        Actions list;
        const std::uint64_t kind = choose_(8);
        const std::uint64_t count = kind == 0 ? 0 : kind < 5 ? 1 : choose_(wire::kMaxActions) + 1;
        for (std::uint64_t i = 0; i < count; ++i) {
            const std::uint64_t which = choose_(channels_.size() + 1);
            // A number that nobody has.
            std::uint32_t number = 0xffff'fff0U | lane;
            if (which < channels_.size()) number = channels_[which]->number();
            if ((number & 3) != lane || (only_kept && !is_kept(number))) continue;
            list[number] = any_id();
        }
        return list;
    }
    bool switch_to(std::size_t tracepoint, std::uint32_t lane, const Actions& list) {
        std::vector<wire::Action> actions;
        actions.reserve(list.size());
        for (const auto& [channel, id] : list) actions.push_back({.event_id = id, .channel = channel});
        return controls_[lane].switch_to(static_cast<std::uint32_t>(tracepoint), actions).has_value();
    }
    void switch_any() {
        const std::size_t tracepoint = choose_(kTracepoints);
        const auto lane = static_cast<std::uint32_t>(choose_(wire::kLanes));
        lists_[tracepoint][lane] = any_list(lane, false);
        if (!switch_to(tracepoint, lane, lists_[tracepoint][lane])) fail("a tracepoint cannot be switched");
    }

    // Events.

    // The event's payload is its number, and nothing.
    static void write_event(leat_tracepoint& tracepoint, std::uint64_t event, std::uint64_t size) {
        if (__atomic_load_n(tracepoint.word, __ATOMIC_RELAXED) == 0) return;
        if (size <= LEAT_STAGE_SMALL) {
            alignas(16) std::array<char, LEAT_STAGE_SMALL + LEAT_STAGE_SLACK> staged{};
            std::memcpy(staged.data(), &event, sizeof event);
            return leat_write(&tracepoint, kIp, 0, staged.data(), size);
        }
        void* const staged = leat_stage_large(&tracepoint, size);
        if (staged == nullptr) return;
        std::memcpy(staged, &event, sizeof event);
        leat_write_large(&tracepoint, kIp, 0, staged, size);
    }
    void emit(std::size_t tracepoint, std::uint64_t size, bool is_inside = false) {
        emitted_.push_back({.tracepoint = tracepoint, .size = size, .is_inside = is_inside});
        write_event(tracepoints_[tracepoint], first_event_ + emitted_.size() - 1, size);
    }
    std::uint64_t any_size() {
        constexpr std::array<std::uint64_t, 8> kSizes{8, 8, 8, 17, 100, 1'000, 20'000, 300'000};
        return kSizes[choose_(kSizes.size())];
    }
    void emit_some() {
        for (std::uint64_t left = choose_(20) + 1; left > 0; --left) emit(choose_(kTracepoints), any_size());
    }
    // As a signal handler would that has interrupted a writer.
    void emit_inside_another() {
        std::uint32_t& flag = choose_(2) == 0 ? tracer::thread_state.is_writing : tracer::thread_state.is_filling;
        flag = 1;
        emit(choose_(kTracepoints), 8, true);
        flag = 0;
        emit(choose_(kTracepoints), 8);
    }
    void emit_as_shared() {
        leat_thread_share();
        emit(choose_(kTracepoints), 8);
        leat_thread_unshare();
        emit(choose_(kTracepoints), 8);
    }

    static inline SwitchedHandler handler{};
    static void handle(int /*signal*/) {
        if (handler.count < kMostInHandler) write_event(*handler.tracepoint, handler.first_event + handler.count++, 8);
    }
    // Signals come at any time while the thread emits. Handler's events have the numbers after those of the thread.
    void emit_with_handler() {
        constexpr std::size_t kEvents = 200;
        const std::size_t tracepoint = choose_(kTracepoints);
        const std::size_t of_handler = choose_(kTracepoints);
        const std::uint64_t first = first_event_ + emitted_.size();
        handler = {&tracepoints_[of_handler], first + kEvents, 0};
        struct sigaction action {};
        action.sa_handler = handle;
        struct sigaction before {};
        ::sigaction(SIGUSR2, &action, &before);
        sigevent event{};
        event.sigev_notify = SIGEV_THREAD_ID;
        event._sigev_un._tid = ::gettid();
        event.sigev_signo = SIGUSR2;
        timer_t timer{};
        if (::timer_create(CLOCK_MONOTONIC, &event, &timer) != 0) return fail("no timer");
        const itimerspec often{{0, 20'000}, {0, 5'000}};
        ::timer_settime(timer, 0, &often, nullptr);
        for (std::size_t i = 0; i < kEvents; ++i) emit(tracepoint, 8, true);
        ::timer_delete(timer);
        ::sigaction(SIGUSR2, &before, nullptr);
        for (std::uint64_t i = 0; i < handler.count; ++i)
            emitted_.push_back({.tracepoint = of_handler, .size = 8, .is_inside = true});
        in_handlers_ += handler.count;
    }

    // A daemon changes a list all the time, to another one and back. It ends with the one that it began with.
    void emit_while_switched() {
        constexpr std::size_t kEvents = 200;
        const std::size_t tracepoint = choose_(kTracepoints);
        const auto lane = static_cast<std::uint32_t>(choose_(wire::kLanes));
        other_list_ = any_list(lane, true);
        lists_[tracepoint][lane] = any_list(lane, true);
        if (!switch_to(tracepoint, lane, lists_[tracepoint][lane])) return fail("a tracepoint cannot be switched");
        std::atomic<bool> is_ending = false;
        std::atomic<bool> has_begun = false;
        std::thread daemon([&] {
            while (!is_ending) {
                switch_to(tracepoint, lane, other_list_);
                switch_to(tracepoint, lane, lists_[tracepoint][lane]);
                has_begun = true;
            }
        });
        while (!has_begun) std::this_thread::yield();
        for (std::size_t i = 0; i < kEvents; ++i) {
            emit(tracepoint, 8);
            emitted_.back().changing_lane = lane;
        }
        is_ending = true;
        daemon.join();
        while_switched_ += kEvents;
    }

    // What must be there.

    // Reads all rings and compares; then forgets the events.
    void check() {
        std::vector<std::uint64_t> in_changing_lane(emitted_.size());
        for (std::size_t i = 0; i < channels_.size() && violation_.empty(); ++i) check_channel(i, in_changing_lane);
        for (std::size_t i = 0; i < emitted_.size() && violation_.empty(); ++i) {
            count_not_attached(emitted_[i]);
            if (!emitted_[i].changing_lane || in_changing_lane[i] != 0) continue;
            // It is given up if it meets a thousand changes, which takes a very slow machine; and it is counted.
            if (!other_list_.empty() && !lists_[emitted_[i].tracepoint][*emitted_[i].changing_lane].empty())
                ++not_attached_[*emitted_[i].changing_lane];
        }
        for (std::uint32_t lane = 0; lane < wire::kLanes && violation_.empty(); ++lane) {
            const std::uint64_t counted = *controls_[lane].not_attached();
            if (counted != not_attached_[lane])
                fail(fmt::format("lane {}: {} not attached, not {}", lane, counted, not_attached_[lane]));
        }
        first_event_ += emitted_.size();
        emitted_.clear();
    }
    void count_not_attached(const Emitted& event) {
        for (std::uint32_t lane = 0; lane < wire::kLanes; ++lane) {
            if (event.changing_lane == lane) continue;
            for (const auto& [number, id] : lists_[event.tracepoint][lane]) {
                if (is_kept(number)) continue;
                ++not_attached_[lane];
                ++all_not_attached_;
            }
        }
    }
    void check_channel(std::size_t index, std::vector<std::uint64_t>& in_changing_lane) {
        SwitchedChannel& channel = *channels_[index];
        const auto size_of = [&](std::uint64_t event) {
            return event - first_event_ < emitted_.size() ? emitted_[event - first_event_].size : SIZE_MAX / 2;
        };
        const bool is_switched = !emitted_.empty() && emitted_.back().changing_lane.has_value();
        const auto records =
            channel.take(size_of, is_switched ? nullptr : kIp, choose_(3) == 0 ? 0 : SwitchedChannel::kRingSize);
        if (!records) return fail(fmt::format("channel {:#x} has a record that makes no sense", channel.number()));
        std::vector<bool> is_there(emitted_.size());
        for (const SwitchedRecord& record : *records) {
            const std::uint64_t event = record.event - first_event_;
            if (is_there[event]) return fail(fmt::format("event {} is twice in {:#x}", event, channel.number()));
            is_there[event] = true;
            if (!is_right(channel.number(), record.id, emitted_[event]))
                return fail(fmt::format("event {} is in {:#x} with id {}", event, channel.number(), record.id));
            if (emitted_[event].changing_lane == (channel.number() & 3)) ++in_changing_lane[event];
        }
        written_ += records->size();
        check_missing(index, is_there);
    }
    [[nodiscard]] bool is_right(std::uint32_t number, std::uint32_t id, const Emitted& event) const {
        const auto names = [&](const Actions& list) {
            const auto found = list.find(number);
            return found != list.end() && found->second == id;
        };
        return names(lists_[event.tracepoint][number & 3]) ||
               (event.changing_lane == (number & 3) && names(other_list_));
    }
    // What is wanted and not there is counted, and there was a reason.
    void check_missing(std::size_t index, const std::vector<bool>& is_there) {
        const SwitchedChannel& channel = *channels_[index];
        const std::uint32_t number = channel.number();
        std::uint64_t missing = 0;
        for (std::size_t i = 0; i < emitted_.size() && is_kept(number); ++i) {
            const Emitted& event = emitted_[i];
            bool is_wanted = lists_[event.tracepoint][number & 3].contains(number);
            if (event.changing_lane == (number & 3)) is_wanted = is_wanted && other_list_.contains(number);
            if (!is_wanted || is_there[i]) continue;
            ++missing;
            const bool may_be_missing = event.size > 16'000 || (event.is_inside && !channel.has_rseq());
            if (!may_be_missing) fail(fmt::format("event {} is missing in {:#x}", i, number));
        }
        const std::uint64_t counted = channel.discarded() - discarded_before_[index];
        if (counted != missing) fail(fmt::format("{:#x} counts {}, not {}", number, counted, missing));
        discarded_before_[index] = channel.discarded();
        discarded_ += missing;
    }

    static inline const void* const kIp = &handler;

    Choose choose_;
    std::string violation_;
    std::array<leat_tracepoint, kTracepoints> tracepoints_ = [] {
        std::array<leat_tracepoint, kTracepoints> made{};
        for (leat_tracepoint& tracepoint : made) tracepoint.name = "model:event";
        return made;
    }();
    tracer::ControlMemory* memory_ = nullptr;
    UniqueFd memory_fd_{};
    std::vector<wire::ControlFile> controls_{};
    std::vector<std::unique_ptr<SwitchedChannel>> channels_{};
    std::vector<std::uint64_t> discarded_before_{};
    std::array<std::array<Actions, wire::kLanes>, kTracepoints> lists_{};
    Actions other_list_{};
    std::array<std::uint64_t, wire::kLanes> not_attached_{};
    std::vector<Emitted> emitted_{};
    std::uint64_t first_event_ = 1'000'000;
    std::uint64_t written_ = 0;
    std::uint64_t discarded_ = 0;
    std::uint64_t all_not_attached_ = 0;
    std::uint64_t in_handlers_ = 0;
    std::uint64_t while_switched_ = 0;
};

}  // namespace leat::test
