#include "sessiond/session_thread.hpp"

#include <grp.h>
#include <poll.h>
#include <sys/fsuid.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <nlohmann/json.hpp>
#include <set>
#include <system_error>
#include <utility>

#include "base/blocked_signals.hpp"
#include "base/descriptors.hpp"
#include "base/log.hpp"
#include "base/threads.hpp"
#include "output/trace_directory.hpp"
#include "sessiond/program_log.hpp"

namespace leat::sessiond {
namespace {

using namespace std::chrono_literals;

// From one try to open an output to the next.
constexpr host::Engine::Clock::duration kRetry = 1s;

// Of a trace in a directory, but for the files of its streams; and of one at a relay.
constexpr std::size_t kDescriptorsOfOutput = 4;

// A line of the journal.
std::string line_of(const host::ChunkDirectories::State& state, bool is_snapshot_wanted, std::uint64_t snapshots) {
    const nlohmann::json line{{"current", state.current.string()},
                              {"start", state.start},
                              {"id", state.id},
                              {"next", state.next.string()},
                              {"archived", state.archived.string()},
                              {"snapshot_wanted", is_snapshot_wanted},
                              {"snapshots", snapshots}};
    return line.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace) + "\n";
}

SessionThread::Figures no_figures(std::size_t channels) {
    const std::vector<std::uint64_t> none(channels);
    return {none, none, none, none};
}

SessionThread::Figures figures_of(const consumer::Progress& progress, std::size_t channels) {
    SessionThread::Figures figures = no_figures(channels);
    for (const auto& [stream, known] : progress.begun()) {
        figures.events[stream.channel] += known.events;
        figures.unreadable[stream.channel] += known.unreadable;
        figures.beyond_limit[stream.channel] += known.beyond_limit;
        figures.bytes[stream.channel] += known.bytes;
    }
    return figures;
}

bool is_same_file(int one, int other) {
    struct stat first {};
    struct stat second {};
    return ::fstat(one, &first) == 0 && ::fstat(other, &second) == 0 && first.st_dev == second.st_dev &&
           first.st_ino == second.st_ino;
}

}  // namespace

// Its last line counts. Daemons of before have appended, and knew nothing of snapshots.
Result<SessionThread::KeptState> SessionThread::read_kept(const std::filesystem::path& session,
                                                          const Journal& journal) {
    if (journal.empty()) return KeptState{.chunks = host::ChunkDirectories(session)};
    std::string text = LEAT_TRY(journal.read());
    text.pop_back();
    const auto line = nlohmann::json::parse(text.substr(text.rfind('\n') + 1), nullptr, false);
    if (!line.is_object()) return corrupt("the journal of chunks has no line that can be read");
    try {
        return KeptState{
            .chunks = host::ChunkDirectories(session, {.current = line.at("current").get<std::string>(),
                                                       .start = line.at("start").get<std::time_t>(),
                                                       .id = line.at("id").get<unsigned>(),
                                                       .next = line.at("next").get<std::string>(),
                                                       .archived = line.at("archived").get<std::string>()}),
            .is_snapshot_wanted = line.value("snapshot_wanted", false),
            .snapshots = line.value("snapshots", std::uint64_t{0})};
    } catch (const nlohmann::json::exception& error) {
        return corrupt("the journal of chunks: {}", error.what());
    }
}

Result<std::unique_ptr<SessionThread>> SessionThread::start(Parameters parameters) {
    KeptState kept = LEAT_TRY(read_kept(parameters.destination.directory, parameters.chunks));
    auto engine = LEAT_TRY(host::Engine::create());
    std::unique_ptr<SessionThread> session(
        new SessionThread(std::move(parameters), std::move(kept), std::move(engine)));
    if (!session->inbox_.is_open()) return io_error("cannot create a thread's descriptor");
    const BlockedSignals blocked;
    try {
        session->thread_ = std::thread([running = session.get()] { running->run(); });
    } catch (const std::system_error&) {
        return cannot_start_thread();
    }
    return session;
}

SessionThread::~SessionThread() {
    if (!thread_.joinable()) return;
    inbox_.post([this] { is_ending_ = true; });
    thread_.join();
}

// Of this thread alone: glibc's functions would change all threads. The calls tell nothing of failure; asked again with
// what cannot be set, they tell what is set.
Result<void> SessionThread::become_owner() const {
    if (!parameters_.owner) return {};
    const auto [uid, gid] = *parameters_.owner;
    const bool has_no_groups = ::syscall(SYS_setgroups, 0, nullptr) == 0;
    ::setfsgid(gid);
    ::setfsuid(uid);
    if (has_no_groups && static_cast<gid_t>(::setfsgid(static_cast<gid_t>(-1))) == gid &&
        static_cast<uid_t>(::setfsuid(static_cast<uid_t>(-1))) == uid)
        return {};
    return refused("files of user {} cannot be written here", uid);
}

void SessionThread::run() {
    trouble_ = become_owner();
    parameters_.destination.directory = chunks_.state().current;
    finish_rotation();
    if (chunks_.state().start != 0) flight_recorder_.go_on_after_another();
    while (!is_ending_) {
        std::array own{pollfd{inbox_.fd(), POLLIN, 0}};
        const bool is_complete =
            std::ranges::all_of(recorded_, [](const Recorded& recorded) { return recorded.recording != nullptr; });
        const bool is_busy = !is_complete || !finishing_.empty();
        const host::Engine::Clock::duration longest = is_busy ? kRetry : std::chrono::hours(1);
        engine_->turn(own, std::min(longest, flight_recorder_.until_due()));
        if (own[0].revents != 0) inbox_.run_all();
        open_due();
        end_opened();
        publish();
        tell_if_full();
        tell_if_snapshot_wanted();
    }
}

void SessionThread::tell_if_full() {
    if (limit_.is_reached() && !std::exchange(is_full_told_, true)) parameters_.daemon->post(parameters_.when_full);
}

std::vector<host::Recording*> SessionThread::recordings() const {
    std::vector<host::Recording*> recordings;
    for (const Recorded& recorded : recorded_)
        if (recorded.recording != nullptr) recordings.push_back(recorded.recording);
    return recordings;
}

// The daemon sees to it: values of sticky events come first.
void SessionThread::tell_if_snapshot_wanted() {
    flight_recorder_.notice(recordings());
    keep_wish(flight_recorder_.is_wanted());
    if (!flight_recorder_.is_due()) return;
    flight_recorder_.pass_on();
    parameters_.daemon->post(parameters_.when_snapshot_wanted);
}

// So that it is not forgotten if we are killed before there is a snapshot. Killed in between, the next daemon takes one
// too many.
void SessionThread::keep_wish(bool is_wanted) {
    if (std::exchange(is_wish_kept_, is_wanted) == is_wanted) return;
    if (const auto kept = keep_state(); !kept)
        log_error("session {}: that a snapshot is wanted is not kept: {}", parameters_.session, kept.error().message);
}

void SessionThread::ask_for_snapshot(std::function<void()> when_kept) {
    inbox_.post([this, when_kept = std::move(when_kept)] {
        flight_recorder_.ask();
        keep_wish(true);
        parameters_.daemon->post(when_kept);
    });
}

// A process has ended: with its trace, its rings go. So what was asked for cannot wait for the others. But where a
// relay does not take it, or the disk is full, the trace waits for the next snapshot of all.
bool SessionThread::may_end(const Recorded& recorded) {
    if (!recorded.recording->is_for_snapshots()) return true;
    recorded.recording->drain();  // who asks by an event has done so there
    flight_recorder_.notice(std::array{recorded.recording});
    if (!flight_recorder_.is_wanted()) return true;
    if (flight_recorder_.is_failing()) return false;
    const auto stored = flight_recorder_.take_last(*recorded.recording, {.max_size = parameters_.max_size});
    if (!stored) {
        log_error("session {}: no snapshot of a process that has ended: {}", parameters_.session,
                  stored.error().message);
        note_snapshot_trouble(stored.error().message);
        // A trace that waited would keep the descriptors that all snapshots lack.
        const bool may_wait = flight_recorder_.is_failing() && !are_descriptors_scarce(kDescriptorsOfOutput);
        is_part_lost_ |= !may_wait;
        return !may_wait;
    }
    // Others may still be missing: what is known of them stays.
    count_snapshot();
    log_info("session {}: snapshot of a process that has ended, of {} events in {}", parameters_.session,
             stored->totals.events, stored->directory.string());
    return true;
}

// The session ends, and what was asked for is not due yet, or the relay has not taken it: now or never.
std::string SessionThread::take_unmet_snapshot() {
    for (host::Recording* const recording : recordings())
        if (recording->is_for_snapshots()) recording->drain();
    flight_recorder_.notice(recordings());
    if (!flight_recorder_.is_wanted() || recordings().empty()) return {};
    flight_recorder_.ask();  // the last try leaves what it can store
    const auto taken = take_wanted();
    return taken ? std::string() : "a snapshot that was asked for is lost: " + taken.error().message;
}

Result<void> SessionThread::take_wanted() {
    const auto stored = take_snapshot({.max_size = parameters_.max_size});
    if (!stored) {
        note_snapshot_trouble(stored.error().message);
        return tl::unexpected(stored.error());
    }
    note_snapshot_met();
    log_info("session {}: snapshot of {} events in {}", parameters_.session, stored->totals.events,
             stored->directory.string());
    return {};
}

Result<host::StoredSnapshot> SessionThread::take_snapshot(const host::SnapshotOrder& order) {
    if (!trouble_) return tl::unexpected(trouble_.error());
    auto stored = flight_recorder_.take(recordings(), order);
    // Rings that cannot be read are why there is nothing.
    if (std::string unread = first_trouble(storage_trouble_of); recordings().empty() && !unread.empty())
        stored = refused("{}", unread);
    if (stored) count_snapshot();
    return stored;
}

// Before anybody is told of it.
void SessionThread::count_snapshot() {
    ++snapshots_stored_;
    if (const auto kept = keep_state(); !kept)
        log_error("session {}: that a snapshot is stored is not kept: {}", parameters_.session, kept.error().message);
}

void SessionThread::snapshot(host::SnapshotOrder order, Snapped done) {
    inbox_.post([this, order = std::move(order), done = std::move(done)]() mutable {
        open_all();
        order.is_limited = order.max_size != 0;
        if (order.max_size == 0) order.max_size = parameters_.max_size;
        // It is the one that is wanted as well, if there is one.
        const bool was_wanted =
            flight_recorder_.is_wanted() && order.directory.empty() && !order.relay && !order.is_limited;
        auto stored = take_snapshot(order);
        if (stored && !flight_recorder_.is_wanted()) note_snapshot_met();
        if (!stored && was_wanted) note_snapshot_trouble(stored.error().message);
        std::string trouble = stored ? std::string() : stored.error().message;
        parameters_.daemon->post([done, trouble = std::move(trouble),
                                  made = stored ? *stored : host::StoredSnapshot{}] { done(trouble, made); });
    });
}

void SessionThread::take_wanted_snapshot() {
    inbox_.post([this] {
        open_all();
        if (!flight_recorder_.is_wanted()) return;
        if (recorded_.empty() && flight_recorder_.is_met_in_part()) {
            flight_recorder_.forget_wish();
            return note_snapshot_met();
        }
        if (const auto taken = take_wanted(); !taken)
            log_error("session {}: no snapshot: {}", parameters_.session, taken.error().message);
        // There is nothing that could be stored later.
        if (recorded_.empty()) flight_recorder_.forget_wish();
    });
}

void SessionThread::open_all() {
    for (Recorded& recorded : recorded_)
        if (recorded.recording == nullptr) open(recorded);
}

// Other traces' events make many turns.
void SessionThread::open_due() {
    const auto now = host::Engine::Clock::now();
    for (Recorded& recorded : recorded_)
        if (recorded.recording == nullptr && recorded.next_try <= now) open(recorded);
}

Result<std::unique_ptr<host::Recording>> SessionThread::begin(const Recorded& recorded) {
    if (are_descriptors_scarce(kDescriptorsOfOutput)) return refused("too many open files");
    host::Recording::Parameters parameters = host::recording_parameters(parameters_.destination);
    parameters.progress = recorded.progress;
    if (parameters_.max_size != 0) parameters.limit = &limit_;
    auto output =
        LEAT_TRY(host::open_output(*recorded.trace, parameters_.session, parameters_.destination, recorded.progress));
    return host::Recording::create(*recorded.trace, std::move(output), parameters);
}

// The maximum size of the session is that of each snapshot.
Result<std::unique_ptr<host::Recording>> SessionThread::begin_for_snapshots(const Recorded& recorded) {
    host::Recording::Parameters parameters = host::recording_parameters(parameters_.destination);
    parameters.progress = recorded.progress;
    parameters.before_wish = [this] { keep_wish(true); };
    return host::Recording::create_for_snapshots(*recorded.trace, parameters);
}

void SessionThread::open(Recorded& recorded) {
    recorded.next_try = host::Engine::Clock::now() + kRetry;
    if (!trouble_) {
        recorded.trouble = trouble_.error().message;
        return;
    }
    auto recording = recorded.trace->is_for_snapshots() ? begin_for_snapshots(recorded) : begin(recorded);
    if (recording) {
        recorded.recording = &engine_->add(*std::move(recording));
        recorded.trouble.clear();
        for (const auto& program : std::exchange(recorded.owed, {})) replay_now(*recorded.trace, program);
        return;
    }
    note_trouble(recorded, recording.error());
}

// Once, as it may take long to go away.
void SessionThread::note_trouble(Recorded& recorded, const Error& error) const {
    recorded.is_obstructed = is_in_the_way_of_its_user(error);
    recorded.lacks_room = error.kind == ErrorKind::kDiskFull;
    if (are_descriptors_scarce(kDescriptorsOfOutput))
        log_want_of_descriptors("events stay in the rings");
    else if (recorded.trouble != error.message)
        log_error("session {}: {}: events stay in the rings", parameters_.session, error.message);
    recorded.trouble = error.message;
}

// What is missing before what there is: people compare the two.
void SessionThread::publish() {
    const auto for_all = [this](const auto& act) {
        for (auto* const all : {&recorded_, &finishing_})
            for (Recorded& recorded : *all)
                if (recorded.recording != nullptr) act(recorded);
    };
    Missing missing = missing_of_ended_;
    for_all([&](const Recorded& recorded) { missing.add(recorded.recording->output()); });
    {
        const std::lock_guard guard(lock_);
        missing_ = missing;
    }
    for_all([this](Recorded& recorded) { publish(recorded); });
    std::string trouble = first_trouble(storage_trouble_of);
    const std::lock_guard guard(lock_);
    bytes_ = limit_.used();
    storage_trouble_ = std::move(trouble);
}

std::string SessionThread::storage_trouble_of(const Recorded& recorded) {
    return recorded.recording == nullptr ? recorded.trouble : recorded.recording->storage_trouble();
}

void SessionThread::publish(Recorded& recorded) {
    tell_warnings(recorded);
    const consumer::Consumer& consumer = recorded.recording->consumer();
    const std::lock_guard guard(lock_);
    Figures& figures = figures_[recorded.trace];
    figures = no_figures(recorded.trace->channels().size());
    for (std::size_t i = 0; i < figures.events.size(); ++i) {
        figures.events[i] = consumer.events(i);
        figures.unreadable[i] = consumer.unreadable(i);
        figures.beyond_limit[i] = consumer.beyond_limit(i);
        figures.bytes[i] = consumer.bytes(i);
    }
}

// Closes its files.
void SessionThread::remove(const Recorded& recorded) {
    if (recorded.recording == nullptr) return;
    missing_of_ended_.add(recorded.recording->output());
    (void)engine_->remove(*recorded.recording);
}

void SessionThread::tell_warnings(Recorded& recorded) const {
    const std::vector<std::string>& warnings = recorded.recording->warnings();
    while (recorded.warnings_told < warnings.size())
        the_program_log().warn(recorded.trace->key().uid,
                               fmt::format("session {}: {}", parameters_.session, warnings[recorded.warnings_told++]));
}

SessionThread::Figures SessionThread::figures(const session::Trace& trace) const {
    const std::lock_guard guard(lock_);
    const auto found = figures_.find(&trace);
    if (found != figures_.end()) return found->second;
    return no_figures(trace.channels().size());
}

std::uint64_t SessionThread::bytes() const {
    const std::lock_guard guard(lock_);
    return bytes_;
}

std::string SessionThread::storage_trouble() const {
    const std::lock_guard guard(lock_);
    return storage_trouble_;
}

void SessionThread::note_snapshot_trouble(std::string trouble) {
    const std::lock_guard guard(lock_);
    snapshot_trouble_ = std::move(trouble);
}

// But for processes whose rings are gone.
void SessionThread::note_snapshot_met() {
    if (!std::exchange(is_part_lost_, false)) note_snapshot_trouble({});
}

std::string SessionThread::snapshot_trouble() const {
    const std::lock_guard guard(lock_);
    return snapshot_trouble_;
}

SessionThread::Missing SessionThread::missing() const {
    const std::lock_guard guard(lock_);
    return missing_;
}

void SessionThread::answer(const Done& done, std::string trouble) {
    publish();
    parameters_.daemon->post([done, trouble = std::move(trouble)] { done(trouble); });
}

void SessionThread::prepare(Prepared done) {
    inbox_.post([this, done = std::move(done)] {
        const auto prepared = trouble_ ? host::prepare(parameters_.destination) : trouble_;
        const bool is_second = prepared && parameters_.destination.has_both();
        const auto reached = is_second ? host::reach_relay(parameters_.destination) : Result<void>();
        std::error_code without_name;
        const auto place = prepared && parameters_.destination.has_directory()
                               ? std::filesystem::canonical(parameters_.destination.directory, without_name)
                               : std::filesystem::path();
        parameters_.daemon->post([done, trouble = prepared ? std::string() : prepared.error().message,
                                  warning = reached ? std::string() : reached.error().message,
                                  place] { done(trouble, warning, place); });
    });
}

void SessionThread::add(session::Trace& trace, consumer::Progress* progress) {
    // People may ask before the thread has opened the output of a trace that was adopted.
    if (progress != nullptr && trace.is_adopted()) {
        const std::lock_guard guard(lock_);
        figures_[&trace] = figures_of(*progress, trace.channels().size());
    }
    inbox_.post([this, &trace, progress] {
        if (chunks_.state().start == 0) {
            chunks_.begin();
            (void)keep_state();
        }
        flight_recorder_.note_start(chunks_.state().start);
        recorded_.push_back({.trace = &trace, .progress = progress});
    });
}

void SessionThread::replay(const session::Trace& trace, session::StickyProgram program) {
    // A task can be copied; a descriptor cannot.
    inbox_.post([this, &trace, shared = std::make_shared<session::StickyProgram>(std::move(program))] {
        open_all();
        replay_now(trace, shared);
    });
}

// Once for each event, however often they are asked for meanwhile. False: there are too many programs.
bool SessionThread::add_owed(std::vector<std::shared_ptr<session::StickyProgram>>& owed,
                             const std::shared_ptr<session::StickyProgram>& program, std::size_t most) {
    const auto is_of_same_file = [&program](const auto& known) {
        return is_same_file(known->control.get(), program->control.get());
    };
    const auto known = std::ranges::find_if(owed, is_of_same_file);
    if (known == owed.end()) {
        if (owed.size() == most) return false;
        owed.push_back(program);
        return true;
    }
    for (const auto& [tracepoint, actions] : program->orders) {
        std::vector<wire::Action>& all = (*known)->orders[tracepoint];
        for (const wire::Action& action : actions)
            if (std::ranges::find(all, action) == all.end()) all.push_back(action);
    }
    return true;
}

// Where the output cannot be opened now, as the disk is full, they come when it is: those of so many programs, as each
// costs a descriptor.
void SessionThread::replay_now(const session::Trace& trace, const std::shared_ptr<session::StickyProgram>& shared) {
    constexpr std::size_t kMostOwed = 64;
    const auto found = std::ranges::find(recorded_, &trace, [](const Recorded& recorded) { return recorded.trace; });
    if (found == recorded_.end()) return;
    const auto warn = [this, &trace](std::string_view warning) {
        the_program_log().warn(trace.key().uid, fmt::format("session {}: {}", parameters_.session, warning));
    };
    const session::StickyProgram& program = *shared;
    if (found->recording == nullptr && add_owed(found->owed, shared, kMostOwed)) return;
    if (found->recording == nullptr)
        return warn(fmt::format("sticky values of {} are not recorded: {}", program.name, found->trouble));
    const auto replayed = session::replay_sticky_values(
        trace, [found] { found->recording->drain(); }, program);
    if (!replayed) return warn(fmt::format("sticky values of {}: {}", program.name, replayed.error().message));
    if (replayed->refused != 0)
        warn(fmt::format("{} sticky values of {} are not what their events' fields say: not recorded",
                         replayed->refused, program.name));
    if (replayed->not_kept != 0)
        warn(fmt::format("{} has not kept {} sticky values: a library keeps {}, of at most {} bytes", program.name,
                         replayed->not_kept, wire::kStickySlots, wire::kStickyPayload));
}

std::string SessionThread::trouble_of(const Recorded& recorded) {
    if (recorded.recording == nullptr) return recorded.trouble;
    const auto error = recorded.recording->trouble();
    return error ? error->message : std::string();
}

// Its owner may have put something where its files are to be: that is no reason to refuse others a rotation.
std::string SessionThread::trouble_for_others_of(const Recorded& recorded) {
    return recorded.recording == nullptr && recorded.is_obstructed ? std::string() : trouble_of(recorded);
}

std::string SessionThread::first_trouble(std::string (*of)(const Recorded&)) const {
    for (const std::vector<Recorded>* const all : {&recorded_, &finishing_})
        for (const Recorded& recorded : *all)
            if (std::string trouble = of(recorded); !trouble.empty()) return trouble;
    return {};
}

// All of them together, so a relay that stands still costs the patience once. Returns the first trouble of any. Until
// resume_all(), those that go on are not drained.
std::string SessionThread::settle_all(std::string (*trouble_of_each)(const Recorded&)) {
    open_all();
    for (const Recorded& recorded : recorded_)
        if (recorded.recording != nullptr) recorded.recording->begin_settle();
    const auto is_awaited = [](const Recorded& recorded) {
        const host::Recording* const recording = recorded.recording;
        return recording != nullptr && recording->is_storing() && !recording->is_stuck();
    };
    while (std::ranges::any_of(recorded_, is_awaited) || std::ranges::any_of(finishing_, is_awaited)) {
        engine_->turn({}, kRetry);
        publish();
    }
    return first_trouble(trouble_of_each);
}

// In a chunk that is new, each stream begins with a packet. LTTng's relay shows wrong ones to a viewer that comes
// before that is there ([LTTng-2.13], "Viewers of a new chunk"). So we wait for it, though not for long.
void SessionThread::begin_streams() {
    constexpr std::chrono::seconds kPatience{1};
    for (const Recorded& recorded : recorded_) {
        if (recorded.recording == nullptr) continue;
        recorded.recording->drain();
        recorded.recording->output().flush();
    }
    const bool has_viewers = parameters_.destination.is_live && !parameters_.destination.has_directory();
    const auto is_awaited = [](const Recorded& recorded) {
        return recorded.recording != nullptr && !recorded.recording->output().is_delivered();
    };
    const auto give_up_at = host::Engine::Clock::now() + kPatience;
    while (has_viewers && std::ranges::any_of(recorded_, is_awaited) && host::Engine::Clock::now() < give_up_at)
        engine_->turn({}, kRetry);
}

void SessionThread::resume_all() {
    for (const Recorded& recorded : recorded_)
        if (recorded.recording != nullptr) recorded.recording->resume();
}

void SessionThread::settle(Done done) {
    inbox_.post([this, done = std::move(done)] {
        std::string trouble = settle_all(trouble_of);
        resume_all();
        answer(done, std::move(trouble));
    });
}

void SessionThread::end(const session::Trace& trace, Done done) {
    inbox_.post([this, &trace, done = std::move(done)] {
        const auto found =
            std::ranges::find(recorded_, &trace, [](const Recorded& recorded) { return recorded.trace; });
        if (found == recorded_.end()) return;  // finish() was faster
        found->when_ended = done;
        if (found->recording == nullptr) open(*found);
        end_opened();
    });
}

// The program of a trace may end before its output can be opened, because the disk is full. Its events stay in the
// rings until then.
void SessionThread::end_opened() {
    const auto can_end = [this](const Recorded& recorded) {
        return recorded.when_ended && recorded.recording != nullptr && may_end(recorded);
    };
    for (auto found = recorded_.begin(); (found = std::find_if(found, recorded_.end(), can_end)) != recorded_.end();) {
        found->recording->begin_finish();
        publish(*found);
        finishing_.push_back(std::move(*found));
        found = recorded_.erase(found);
    }
    (void)finish_those_done();
}

std::string SessionThread::EndTrouble::text() const {
    return events_left == 0 ? why : fmt::format("{}; the rings held {} more events", why, events_left);
}

// Of a recording that is finished, or of a trace whose output could not be opened.
SessionThread::EndTrouble SessionThread::trouble_at_the_end(const Recorded& recorded) {
    if (recorded.recording == nullptr) {
        const bool may_be_left = !recorded.trace->is_for_snapshots();
        return {recorded.trouble,
                may_be_left ? host::Recording::count_unrecorded(*recorded.trace, recorded.progress) : 0};
    }
    const auto& error = recorded.recording->output_error();
    if (!error) return {};
    return {error->message, recorded.recording->consumer().totals().left_in_rings};
}

SessionThread::EndTrouble SessionThread::finish_those_done() {
    EndTrouble trouble;
    std::erase_if(finishing_, [&](Recorded& recorded) {
        if (is_to_be_given_up(recorded)) recorded.recording->give_up();
        if (!recorded.recording->is_finished()) return false;
        trouble.add(remove_finished(recorded));
        return true;
    });
    return trouble;
}

// While the session goes on, the rings keep what is not stored.
bool SessionThread::is_to_be_given_up(const Recorded& recorded) const {
    const host::Recording& recording = *recorded.recording;
    const bool may_be_given_up = is_session_finishing_ || !recording.is_storing();
    return !recording.is_finished() && may_be_given_up && recording.is_stuck();
}

// Closes its files. Returns its trouble.
SessionThread::EndTrouble SessionThread::remove_finished(Recorded& recorded) {
    EndTrouble trouble = trouble_at_the_end(recorded);
    recorded.trouble = trouble.text();
    publish(recorded);
    remove(recorded);
    tell_ended(recorded);
    return trouble;
}

void SessionThread::tell_ended(const Recorded& recorded) const {
    if (recorded.when_ended)
        parameters_.daemon->post([done = recorded.when_ended, trouble = recorded.trouble] { done(trouble); });
}

SessionThread::Figures SessionThread::take_figures(const session::Trace& trace) {
    Figures figures = this->figures(trace);
    const std::lock_guard guard(lock_);
    figures_.erase(&trace);
    return figures;
}

Result<void> SessionThread::keep_state() {
    return parameters_.chunks.replace(line_of(chunks_.state(), is_wish_kept_, snapshots_stored_));
}

// The daemon before us was killed in the middle. All that was to be stored in the chunk before is there; some traces
// may have begun in the next one, the others do so now.
void SessionThread::finish_rotation() {
    if (chunks_.state().next.empty()) return;
    parameters_.destination.directory = chunks_.state().next;
    const auto archived = chunks_.rotate();
    if (!archived) log_error("session {}: {}", parameters_.session, archived.error().message);
    (void)keep_state();
}

// A user may put things where its traces are to be, and harms nobody else by it.
bool SessionThread::is_in_the_way_of_its_user(const Error& error) const {
    return parameters_.destination.belongs_to_users && !are_descriptors_scarce(kDescriptorsOfOutput) &&
           error.kind == ErrorKind::kRefused;
}

// All traces that are stored go on in the new chunk, or none does; but for those whose users are in the way, which are
// opened when they no longer are. What is about to happen is kept before, so that a daemon that goes on after us does
// the rest.
Result<std::filesystem::path> SessionThread::rotate_now() {
    const std::string trouble = settle_all(trouble_for_others_of);
    if (!trouble.empty()) return refused("{}", trouble);
    LEAT_TRY(chunks_.make_archives());
    chunks_.plan_rotation();
    LEAT_TRY(keep_state());
    const std::filesystem::path next = chunks_.state().next;
    std::vector<host::Recording*> all;
    std::vector<std::pair<Recorded*, Error>> obstructed;
    Result<void> prepared;
    for (Recorded& recorded : recorded_) {
        if (recorded.recording == nullptr) continue;
        all.push_back(recorded.recording);
        if (!prepared) continue;
        prepared = recorded.recording->output().prepare_chunk(next);
        if (prepared || !is_in_the_way_of_its_user(prepared.error())) continue;
        obstructed.emplace_back(&recorded, std::exchange(prepared, {}).error());
        recorded.recording->output().drop_chunk();
        all.pop_back();
    }
    for (host::Recording* const recording : all) {
        if (!prepared) {
            recording->output().drop_chunk();
            continue;
        }
        (void)recording->output().begin_chunk();
        recording->drain();
    }
    if (!prepared) {
        chunks_.drop_plan();
        LEAT_TRY(keep_state());
        return tl::unexpected(std::move(prepared).error());
    }
    for (const auto& [recorded, error] : obstructed) {
        tell_warnings(*recorded);
        remove(*recorded);
        recorded->recording = nullptr;
        recorded->warnings_told = 0;
        note_trouble(*recorded, error);
    }
    has_begun_anew_ = true;
    parameters_.destination.directory = next;
    auto archived = chunks_.rotate();
    LEAT_TRY(keep_state());
    return archived;
}

// A relay keeps each trace as a session of its own, and names its chunks itself. A daemon that goes on after us begins
// a new part there, wherever we are killed.
Result<std::string> SessionThread::rotate_at_relay() {
    const std::string trouble = settle_all(trouble_for_others_of);
    if (!trouble.empty()) return refused("{}", trouble);
    const std::vector<host::Recording*> all = recordings();
    if (all.empty()) return refused("the relay has nothing of this session yet: there is nothing to rotate");
    for (host::Recording* const recording : all) LEAT_TRY(recording->output().prepare_chunk({}));
    std::string paths;
    Result<void> rotated;
    for (host::Recording* const recording : all) {
        const std::uint64_t part = recording->output().part();
        const auto path = recording->output().begin_chunk();
        has_begun_anew_ |= path || recording->output().part() != part;  // the relay may go away afterwards
        if (!path && rotated) rotated = tl::unexpected(path.error());
        if (path) paths += (paths.empty() ? "" : ", ") + *path;
    }
    begin_streams();
    if (!rotated) return tl::unexpected(std::move(rotated).error());
    return paths;
}

// Sticky values are to be recorded again where something has begun, and nowhere else: rings may be full.
void SessionThread::answer_begun(const BegunAnew& done, const Result<std::string>& path) {
    parameters_.daemon->post([done, trouble = path ? std::string() : path.error().message,
                              where = path.value_or(std::string()),
                              has_begun = std::exchange(has_begun_anew_, false)] { done(trouble, where, has_begun); });
}

void SessionThread::rotate(BegunAnew done) {
    inbox_.post([this, done = std::move(done)] {
        const auto path =
            parameters_.destination.has_directory()
                ? rotate_now().map([](const std::filesystem::path& archived) { return archived.string(); })
                : rotate_at_relay();
        resume_all();
        publish();
        answer_begun(done, path);
    });
}

// What is thrown away anyway makes room on a full disk for what the rings hold, which goes the same way: as often as
// something more of that can be stored then, but not for ever, because programs may go on.
std::string SessionThread::settle_to_clear(const std::vector<output::ChannelFiles>& channels) {
    constexpr int kMostTimes = 100;
    std::string trouble = settle_all(trouble_for_others_of);
    if (!parameters_.destination.has_directory()) return trouble;
    std::uint64_t before = 0;
    for (int times = 0; times < kMostTimes; ++times) {
        std::vector<host::Recording*> all;
        for (const std::vector<Recorded>* const those : {&recorded_, &finishing_})
            for (const Recorded& recorded : *those)
                if (recorded.recording != nullptr) all.push_back(recorded.recording);
        std::uint64_t stored = 0;
        // Also for a trace that could not begin.
        bool is_disk_full = std::ranges::any_of(
            recorded_, [](const Recorded& recorded) { return recorded.recording == nullptr && recorded.lacks_room; });
        for (const host::Recording* const recording : all) {
            const auto error = recording->trouble();
            is_disk_full |= error && error->kind == ErrorKind::kDiskFull;
            stored += recording->consumer().totals().bytes;
        }
        if (!is_disk_full || (times != 0 && stored == before)) break;
        before = stored;
        has_begun_anew_ |= clear_ended(channels, Finishing::kStays).has_value();
        for (host::Recording* const recording : all) {
            if (!recording->output().clear()) return trouble;
            has_begun_anew_ = true;
        }
        resume_all();
        for (const Recorded& recorded : finishing_) recorded.recording->begin_finish();  // tries again
        trouble = settle_all(trouble_for_others_of);
    }
    return trouble;
}

Result<void> SessionThread::clear_now(const std::vector<output::ChannelFiles>& channels) {
    const std::string trouble = settle_to_clear(channels);
    if (!trouble.empty()) return refused("{}", trouble);
    Result<void> cleared;
    for (host::Recording* const recording : recordings()) {
        const std::uint64_t part = recording->output().part();
        cleared = recording->output().clear();
        has_begun_anew_ |= cleared || recording->output().part() != part;  // a relay may go away afterwards
        if (!cleared) break;
        if (recording->is_for_snapshots()) recording->forget();
    }
    begin_streams();
    return cleared;
}

// Traces of processes that have ended, also before this daemon was started.
Result<void> SessionThread::clear_ended(const std::vector<output::ChannelFiles>& channels, Finishing finishing) const {
    const std::filesystem::path& chunk = chunks_.state().current;
    std::set<std::filesystem::path> going_on;
    for (const Recorded& recorded : recorded_) going_on.insert(chunk / recorded.trace->path());
    if (finishing == Finishing::kStays)
        for (const Recorded& recorded : finishing_) going_on.insert(chunk / recorded.trace->path());
    return output::TraceDirectory::remove_ended(chunk / session::Trace::kDirectoryOfProcesses, going_on, channels);
}

void SessionThread::clear(std::vector<output::ChannelFiles> channels, BegunAnew done) {
    inbox_.post([this, channels = std::move(channels), done = std::move(done)] {
        auto cleared = clear_now(channels);
        if (cleared && parameters_.destination.has_directory()) cleared = clear_ended(channels, Finishing::kGoes);
        resume_all();
        answer_begun(done, cleared.map([] { return std::string(); }));
    });
}

// If it fails for one, it is done for the others. But a relay that does not answer costs the patience once.
Result<void> SessionThread::sample_clock_offsets() {
    Result<void> all_moved;
    for (const Recorded& recorded : recorded_) {
        const auto begin = host::Engine::Clock::now();
        auto moved =
            recorded.recording == nullptr ? refused("{}", recorded.trouble) : recorded.recording->sample_clock_offset();
        if (!moved && all_moved) all_moved = std::move(moved);
        if (!all_moved && host::Engine::Clock::now() - begin >= consumer::Output::kPatience) break;
    }
    return all_moved;
}

void SessionThread::regenerate_metadata(Done done) {
    inbox_.post([this, done = std::move(done)] {
        open_all();
        const auto moved = sample_clock_offsets();
        answer(done, moved ? std::string() : moved.error().message);
    });
}

SessionThread::EndTrouble SessionThread::finish_all() {
    is_session_finishing_ = true;
    EndTrouble trouble;
    for (Recorded& recorded : std::exchange(recorded_, {})) {
        if (recorded.recording != nullptr) {
            finishing_.push_back(std::move(recorded));
            continue;
        }
        const EndTrouble its_trouble = trouble_at_the_end(recorded);
        recorded.trouble = its_trouble.text();
        trouble.add(its_trouble);
        tell_ended(recorded);
    }
    for (const Recorded& recorded : finishing_) recorded.recording->begin_finish();
    for (;;) {
        publish();
        trouble.add(finish_those_done());
        if (finishing_.empty()) return trouble;
        engine_->turn({}, kRetry);
    }
}

void SessionThread::finish(Done done) {
    inbox_.post([this, done = std::move(done)] {
        open_all();
        EndTrouble all{.why = take_unmet_snapshot()};
        all.add(finish_all());
        std::string trouble = all.text();
        if (chunks_.was_rotated()) {
            chunks_.plan_rotation();
            const auto archived = chunks_.rotate();
            if (!archived && trouble.empty()) trouble = archived.error().message;
        }
        answer(done, std::move(trouble));
    });
}

}  // namespace leat::sessiond
