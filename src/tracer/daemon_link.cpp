#include "tracer/daemon_link.hpp"

#include <stdlib.h>

#include "leat/abi.h"
#include "ring/clock.hpp"
#include "tracer/app_directory.hpp"
#include "tracer/channel.hpp"
#include "tracer/control_memory.hpp"
#include "tracer/daemon_directory.hpp"
#include "tracer/daemon_socket.hpp"
#include "tracer/process_page.hpp"
#include "wire/app/app_protocol.hpp"

namespace leat::tracer {
namespace {

using wire::kLanes;
using wire::Lane;

constexpr uint64_t kForever = UINT64_MAX;
// A daemon that does not answer for so long is deaf, and not only busy.
constexpr int64_t kDeafAfterMs = 1'000;

// The daemon of the lane did not answer in time, after it had last answered somebody then. Nobody waits for it again: a
// program that loads many libraries starts late once. Whatever process of ours that was: a forked child would fare no
// better.
struct GivenUp {
    bool is_so;
    timespec last_answer;
};
GivenUp given_up[kLanes] = {};

bool is_given_up(uint32_t lane, const timespec& last) {
    return given_up[lane].is_so && is_equal(given_up[lane].last_answer, last);
}

// When the wait for daemons ends, in ns of CLOCK_MONOTONIC.
uint64_t deadline() {
    const int64_t timeout_ms = register_timeout_ms();
    return timeout_ms < 0 ? kForever : ring::system_now() + static_cast<uint64_t>(timeout_ms) * 1'000'000;
}

int remaining_ms(uint64_t deadline) {
    if (deadline == kForever) return -1;
    const uint64_t now = ring::system_now();
    return now >= deadline ? 0 : static_cast<int>((deadline - now + 999'999) / 1'000'000);
}

// What is said to a daemon.
struct Request {
    const void* message;
    size_t size;
    int fd = -1;  // goes along; -1: none
};

// To the recorder, and to session daemons.
struct Requests {
    Request recorder;
    Request daemons;

    [[nodiscard]] const Request& to(uint32_t lane) const {
        return static_cast<Lane>(lane) == Lane::kRecorder ? recorder : daemons;
    }
};

// With one daemon, and if that is killed meanwhile, with the next:
//
//     connecting  <->  waiting
//          |              |
//          +--> over <----+
class Exchange {
  public:
    void begin(Lane lane, const Request& request) {
        lane_ = lane;
        state_ = State::kConnecting;
        connect(request);
    }
    void connect(const Request& request) {
        const DaemonSocket::Connected connected = socket_.connect(lane_);
        is_nobody_there_ = connected == DaemonSocket::Connected::kNobody;
        if (connected == DaemonSocket::Connected::kNotYet) return;
        if (is_nobody_there_)
            wait_for_next();
        else if (connected == DaemonSocket::Connected::kNo)
            state_ = State::kOver;
        else if (socket_.send(request.message, request.size, request.fd))
            state_ = State::kWaiting;
        else
            go_to_next();
    }
    // Channels come, then "registration done", or whatever else: a daemon that says what we do not know is listened to
    // no more.
    void receive() {
        Answer answer;
        if (!answer.receive(socket_))
            go_to_next();
        else if (answer.is_channel())
            attach(answer);
        else
            state_ = State::kOver;
    }
    // What was said may be read later.
    void end() { state_ = State::kOver; }

    [[nodiscard]] bool is_connecting() const { return state_ == State::kConnecting; }
    // Before it tries to connect again, in ms.
    [[nodiscard]] int pause_ms() const { return pause_ms_; }
    [[nodiscard]] bool is_over() const { return state_ == State::kOver; }
    [[nodiscard]] int waiting_fd() const { return state_ == State::kWaiting ? socket_.fd() : -1; }
    // What is wrong with the daemon as long as this is not over.
    [[nodiscard]] Silence silence() const { return is_nobody_there_ ? Silence::kGone : Silence::kDeaf; }

  private:
    // A thread whose event asks for a channel has the lock for some ms at most. If it takes longer, events will ask for
    // this one, too.
    static void attach(const Answer& answer) {
        constexpr uint64_t kPatience = 100'000'000;  // ns
        const AttachLock lock(kPatience);
        if (lock.is_held())
            attach_channel(answer.channel(), answer.ring_set_fd(), answer.clock_fd(), answer.app_contexts());
    }

    // Killed, with an active session: the next daemon goes on with that.
    void wait_for_next() {
        state_ = is_active(lane_) ? State::kConnecting : State::kOver;
        if (pause_ms_ < kLongestPauseMs) pause_ms_ *= 2;
    }
    // One that lives says that the registration is done, also if it does not trace us. It hangs up on some only if too
    // many come at once.
    void go_to_next() {
        socket_.close();
        wait_for_next();
        if (++hang_ups_ == kMostHangUps) state_ = State::kOver;
    }

    enum class State { kConnecting, kWaiting, kOver };
    static constexpr int kLongestPauseMs = 64;  // many programs may wait at once
    static constexpr int kMostHangUps = 8;
    State state_ = State::kOver;
    Lane lane_{};
    bool is_nobody_there_ = false;
    int pause_ms_ = 1;
    int hang_ups_ = 0;
    DaemonSocket socket_;
};

using Exchanges = Exchange[kLanes];

// Behind the deadline, what was said before is still listened to: so many messages of each, as one may have more and
// more to say.
constexpr int kLastTurns = 64;

// One turn: whoever has answered is listened to, and who could not connect tries again, some ms later. False: it is
// time to stop.
bool proceed(Exchanges& exchanges, const Requests& requests, uint64_t until, int& last_turns) {
    int sockets[kLanes];
    const int left = remaining_ms(until);
    int timeout = left;
    for (uint32_t lane = 0; lane < kLanes; ++lane) {
        const Exchange& exchange = exchanges[lane];
        sockets[lane] = exchange.waiting_fd();
        if (exchange.is_connecting() && (timeout < 0 || timeout > exchange.pause_ms())) timeout = exchange.pause_ms();
    }
    const bool is_late = left == 0;
    if (!wait_until_readable(sockets, kLanes, timeout) && is_late) return false;
    for (uint32_t lane = 0; lane < kLanes; ++lane) {
        if (exchanges[lane].is_connecting() && !is_late) exchanges[lane].connect(requests.to(lane));
        if (sockets[lane] >= 0) exchanges[lane].receive();
    }
    return !is_late || --last_turns > 0;
}

bool is_over(const Exchanges& exchanges) {
    for (const Exchange& exchange : exchanges)
        if (!exchange.is_over()) return false;
    return true;
}

// With all daemons at once, so that one that is stopped does not use up the others' time.
void exchange(const Requests& requests, bool is_findable, bool is_for_recorder = true) {
    Exchanges exchanges;
    timespec last_answers[kLanes] = {};
    for (uint32_t i = 0; i < kLanes; ++i) {
        const auto lane = static_cast<Lane>(i);
        const bool is_there = lane == Lane::kRecorder ? is_for_recorder : is_findable && is_active(lane);
        if (!is_there) continue;
        last_answers[i] = last_answer(lane);
        if (is_given_up(i, last_answers[i])) continue;
        exchanges[i].begin(lane, requests.to(i));
        if (register_timeout_ms() >= 0 && !exchanges[i].is_over() &&
            is_known(exchanges[i].silence(), lane, last_answers[i]))
            exchanges[i].end();
    }
    const uint64_t until = deadline();
    int last_turns = kLastTurns;
    while (!is_over(exchanges) && proceed(exchanges, requests, until, last_turns)) {
    }
    for (uint32_t lane = 0; lane < kLanes; ++lane) {
        if (exchanges[lane].is_over()) continue;
        given_up[lane] = {true, last_answers[lane]};
        if (register_timeout_ms() >= kDeafAfterMs)
            note(exchanges[lane].silence(), static_cast<Lane>(lane), last_answers[lane]);
    }
}

void say_hello(const ControlMemory& memory, int control_fd, bool is_for_recorder) {
    const bool is_findable = memory.path[0] != '\0';
    const wire::RegisterMessage to_recorder{{wire::kAppMagic, wire::kAppVersion, wire::AppMessageType::kRegister}};
    const wire::RegisterFileMessage to_daemons{
        {wire::kAppMagic, wire::kAppVersion, wire::AppMessageType::kRegisterFile},
        is_findable ? app_file_number(memory.path) : 0};
    exchange({{&to_recorder, sizeof to_recorder, control_fd}, {&to_daemons, sizeof to_daemons}}, is_findable,
             is_for_recorder);
}

}  // namespace

void report_refused_module(uint32_t module_abi) {
    const wire::ModuleRefusedMessage message{
        {wire::kAppMagic, wire::kAppVersion, wire::AppMessageType::kModuleRefused}, module_abi, LEAT_ABI_VERSION};
    exchange({{&message, sizeof message}, {&message, sizeof message}}, true);
}

void register_with_daemons(const ControlMemory& memory, int control_fd) { say_hello(memory, control_fd, true); }

void register_again(const ControlMemory& memory, int control_fd) { say_hello(memory, control_fd, false); }

}  // namespace leat::tracer
