// A model of the session daemon without its sockets: sessions, channels, rules and tracked users come and go, and so do
// control files of programs, some of which are scribbled over; and the daemon is killed and started again. The model
// knows what `list` must show and which tracepoints must be on, for which channels, and reports anything else. Unit
// tests draw the steps from random numbers, a fuzz target from its input.
#pragma once

#include <fcntl.h>
#include <poll.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "base/check.hpp"
#include "base/file.hpp"
#include "base/log.hpp"
#include "sessiond/commands.hpp"
#include "sessiond/keeper.hpp"
#include "support/description_table.hpp"
#include "support/model.hpp"
#include "support/patience.hpp"
#include "support/scratch_directory.hpp"
#include "support/two_users.hpp"

namespace leat::test {

// Tracing and Commands in a directory of their own. If it is kept, it can be killed, and another one goes on.
class ScratchDaemon {
  public:
    using Json = nlohmann::json;

    explicit ScratchDaemon(bool is_kept = false) : is_kept_(is_kept) {
        the_log().set_level(Log::Level::kError);
        LEAT_CHECK(::chmod(scratch_.path().c_str(), 0755) == 0);
        for (const auto& path : {apps(), outputs()}) {
            std::filesystem::create_directories(path);
            LEAT_CHECK(::chmod(path.c_str(), 01777) == 0);
        }
        begin();
    }
    ~ScratchDaemon() {
        commands_.reset();
        tracing_.reset();
        if (keeper_) keeper_->end();
    }
    ScratchDaemon(const ScratchDaemon&) = delete;
    ScratchDaemon& operator=(const ScratchDaemon&) = delete;

    // Nothing is ended as it should be.
    void kill() {
        commands_.reset();
        tracing_.reset();
        keeper_.reset();
        begin();
    }

    // Another daemon, without sessions, has the place for a while. This one may notice that before it has it again.
    void lose_place(bool is_noticed) {
        LEAT_CHECK(std::filesystem::remove(place_->path_of(wire::kLockName)));
        {
            auto place = sessiond::DaemonPlace::take(place_->where(), UniqueFd());
            LEAT_CHECK(place);
            auto another = sessiond::Tracing::create({.place = &*place, .mailbox = &*mailbox_});
            LEAT_CHECK(another);
            (void)(*another)->order_all();
            if (is_noticed) (void)tracing_->order_all();
        }
        LEAT_CHECK(place_->take_again());
        tracing_->show_anew();
    }

    [[nodiscard]] std::filesystem::path apps() const { return scratch_.path() / "apps"; }
    [[nodiscard]] std::filesystem::path outputs() const { return scratch_.path() / "outputs"; }
    [[nodiscard]] std::filesystem::path socket() const { return scratch_.path() / "control.sock"; }
    [[nodiscard]] sessiond::Commands& commands() { return *commands_; }
    // For a control server.
    [[nodiscard]] auto handler() {
        return [this](const sessiond::Client& client, const nlohmann::json& request, sessiond::Reply reply) {
            commands_->handle(client, request, std::move(reply));
        };
    }

    void wait() {
        pollfd ready{mailbox_->fd(), POLLIN, 0};
        ::poll(&ready, 1, 10);
        mailbox_->run_all();
    }
    void run_all() { mailbox_->run_all(); }

    // Null: no answer.
    Json ask(Json request, uid_t uid = ::geteuid()) {
        request["version"] = 1;
        auto answer = std::make_shared<Json>();
        commands_->handle({uid, uid, ::getpid()}, request, [answer](Json given) { *answer = std::move(given); });
        (void)wait_until([&] { return !answer->is_null(); }, [&] { wait(); });
        return *answer;
    }

  private:
    void begin() {
        sessiond::Keeper::Kept kept;
        if (is_kept_) {
            auto found = sessiond::Keeper::find(scratch_.path(), kept);
            LEAT_CHECK(found);
            keeper_ = *std::move(found);
            if (!keeper_) {
                auto started = sessiond::Keeper::start(scratch_.path());
                LEAT_CHECK(started);
                keeper_ = *std::move(started);
            }
        }
        mailbox_.emplace();
        place_.reset();  // with its lock
        auto place = sessiond::DaemonPlace::take(
            {.lane = wire::Lane::kSystem, .directory = scratch_.path(), .app_parent = apps()}, UniqueFd());
        LEAT_CHECK(place);
        place_ = *std::move(place);
        auto tracing = sessiond::Tracing::create(
            {.place = &*place_, .mailbox = &*mailbox_, .keeper = keeper_ ? &*keeper_ : nullptr});
        LEAT_CHECK(tracing);
        tracing_ = *std::move(tracing);
        tracing_->adopt(std::move(kept));
        if (is_kept_) (void)tracing_->order_all();
        commands_.emplace(*tracing_);
    }

    bool is_kept_;
    ScratchDirectory scratch_;
    std::optional<sessiond::Keeper> keeper_;
    std::optional<sessiond::DaemonPlace> place_;
    std::optional<sessiond::Mailbox> mailbox_;
    std::unique_ptr<sessiond::Tracing> tracing_;
    std::optional<sessiond::Commands> commands_;
};

class SessionModel {
  public:
    using Json = nlohmann::json;

    explicit SessionModel(Choose choose) : choose_(std::move(choose)) {}

    // Takes one random step.
    void step() {
        static constexpr std::array<void (SessionModel::*)(), 29> kSteps{
            &SessionModel::create,         &SessionModel::create,
            &SessionModel::destroy,        &SessionModel::start,
            &SessionModel::start,          &SessionModel::start,
            &SessionModel::stop,           &SessionModel::enable_channel,
            &SessionModel::enable_channel, &SessionModel::disable_channel,
            &SessionModel::enable_event,   &SessionModel::enable_event,
            &SessionModel::enable_event,   &SessionModel::disable_event,
            &SessionModel::track,          &SessionModel::untrack,
            &SessionModel::save_and_load,  &SessionModel::rotate,
            &SessionModel::clear,          &SessionModel::begin_program,
            &SessionModel::begin_program,  &SessionModel::begin_program,
            &SessionModel::end_program,    &SessionModel::scribble,
            &SessionModel::kill_daemon,    &SessionModel::kill_daemon,
            &SessionModel::lose_place,     &SessionModel::lose_place,
            &SessionModel::rotate,
        };
        ++steps_;
        (this->*kSteps[choose_(kSteps.size())])();
        check();
    }

    // Stops and destroys everything.
    void finish() {
        for (auto& [name, session] : sessions_) {
            expect({{"verb", "stop"}, {"session", name}}, true, !session.is_active);
            session.is_active = false;
        }
        check();
        while (!sessions_.empty()) {
            expect({{"verb", "destroy"}, {"session", sessions_.begin()->first}}, true);
            sessions_.erase(sessions_.begin());
        }
        check();
    }

    [[nodiscard]] const std::string& violation() const { return violation_; }
    // Counts, to check that the steps achieve something.
    [[nodiscard]] std::uint64_t actions() const { return actions_; }
    [[nodiscard]] std::uint64_t loaded() const { return loaded_; }
    [[nodiscard]] std::uint64_t rotated() const { return rotated_; }
    [[nodiscard]] std::uint64_t refusals() const { return refusals_; }
    [[nodiscard]] std::uint64_t kills() const { return kills_; }
    [[nodiscard]] std::uint64_t losses() const { return losses_; }

  private:
    struct Rule {
        std::string pattern;
        bool is_enabled = true;
    };
    struct Channel {
        std::string name;
        bool is_enabled = true;
        std::vector<Rule> rules{};
    };
    struct Session {
        std::uint64_t serial;  // of all that ever were
        std::vector<Channel> channels{};
        std::optional<std::set<uid_t>> vuids{};
        bool is_active = false;
        bool was_started = false;
        bool is_rotated = false;
    };
    struct Program {
        uid_t uid;
        unsigned bitness;
        std::string path;
        UniqueFd file;  // locked
        std::vector<std::size_t> events;
        bool is_broken = false;  // its owner has scribbled over it
    };
    // Of one session, channel, user and ABI.
    struct Traced {
        std::uint32_t number = 0;
        std::map<std::size_t, std::uint32_t> ids{};  // by event
    };

    static constexpr std::array<const char*, 6> kEvents{"a:1", "a:2", "a:3", "b:1", "b:2", "c:1"};
    // Each with the events that it matches.
    struct Pattern {
        const char* text;
        std::set<std::size_t> events;
    };
    static const std::array<Pattern, 5>& patterns() {
        static const std::array<Pattern, 5> table{
            Pattern{"*", {0, 1, 2, 3, 4, 5}}, {"a:*", {0, 1, 2}}, {"*:1", {0, 3, 5}}, {"b:2", {4}}, {"d:*", {}}};
        return table;
    }
    static constexpr std::array<const char*, 3> kSessions{"one", "two", "three"};
    static constexpr std::array<const char*, 3> kChannels{"channel0", "first", "second"};
    static constexpr std::size_t kMaxPrograms = 8;

    template <class... Arguments>
    void violate(fmt::format_string<Arguments...> text, Arguments&&... arguments) {
        if (violation_.empty())
            violation_ = fmt::format("step {}: {}", steps_, fmt::format(text, std::forward<Arguments>(arguments)...));
    }

    // Asks, and compares what comes of it.
    Json expect(const Json& request, bool is_ok, bool is_already = false) {
        // Members of the group steer, too.
        const uid_t uid = can_be_two_users() && choose_(4) == 0 ? 1000 : ::geteuid();
        Json answer = daemon_.ask(request, uid);
        if (!is_ok) ++refusals_;
        if (answer.is_null() || answer.value("ok", false) != is_ok || answer.contains("already") != is_already)
            violate("{} gives {}", request.dump(), answer.dump());
        return answer;
    }

    std::string any_session() { return kSessions[choose_(kSessions.size())]; }
    std::string any_channel() { return kChannels[choose_(kChannels.size())]; }
    Session* find(const std::string& name) {
        const auto found = sessions_.find(name);
        return found == sessions_.end() ? nullptr : &found->second;
    }
    static Channel* find(Session& session, const std::string& name) {
        for (Channel& channel : session.channels)
            if (channel.name == name) return &channel;
        return nullptr;
    }
    std::string new_output() { return daemon_.outputs() / std::to_string(++outputs_); }

    // Sessions ---------------------------------------------------------------------------------------------------

    void create() {
        const std::string name = any_session();
        const bool is_new = find(name) == nullptr;
        expect({{"verb", "create"}, {"session", name}, {"directory", new_output()}}, is_new);
        if (is_new) sessions_.emplace(name, Session{.serial = ++serial_});
    }
    void destroy() {
        const std::string name = any_session();
        expect({{"verb", "destroy"}, {"session", name}}, find(name) != nullptr);
        sessions_.erase(name);
    }
    void start() {
        const std::string name = any_session();
        Session* const session = find(name);
        const bool is_active = session != nullptr && session->is_active;
        const bool is_ok = session != nullptr && (is_active || !session->channels.empty());
        expect({{"verb", "start"}, {"session", name}}, is_ok, is_active);
        if (!is_ok || is_active) return;
        session->is_active = session->was_started = true;
        session->is_rotated = false;
    }
    void stop() {
        const std::string name = any_session();
        Session* const session = find(name);
        expect({{"verb", "stop"}, {"session", name}}, session != nullptr, session != nullptr && !session->is_active);
        if (session != nullptr) session->is_active = false;
    }
    void rotate() {
        const std::string name = any_session();
        Session* const session = find(name);
        const bool is_ok = session != nullptr && session->was_started && (session->is_active || !session->is_rotated);
        expect({{"verb", "rotate"}, {"session", name}}, is_ok);
        if (!is_ok) return;
        ++rotated_;
        if (!session->is_active) session->is_rotated = true;
    }
    void clear() {
        const std::string name = any_session();
        expect({{"verb", "clear"}, {"session", name}}, find(name) != nullptr);
    }
    // Under its old name, or another.
    void save_and_load() {
        const std::string name = any_session();
        Session* const session = find(name);
        Json saved = expect({{"verb", "save"}, {"session", name}}, session != nullptr);
        if (session == nullptr || !saved.contains("definition")) return;
        saved["definition"]["directory"] = new_output();
        Session copy = *session;
        const std::string other = any_session();
        if (other == name) destroy_named(name);
        const bool is_new = find(other) == nullptr;
        expect({{"verb", "load"}, {"session", other}, {"definition", saved["definition"]}}, is_new);
        if (!is_new) return;
        ++loaded_;
        copy.serial = ++serial_;
        copy.was_started = copy.is_active;
        copy.is_rotated = false;
        sessions_.emplace(other, std::move(copy));
    }
    void destroy_named(const std::string& name) {
        expect({{"verb", "destroy"}, {"session", name}}, true);
        sessions_.erase(name);
    }

    // Channels and rules -----------------------------------------------------------------------------------------

    void enable_channel() {
        const std::string name = any_session();
        const std::string channel = any_channel();
        Session* const session = find(name);
        Channel* const known = session == nullptr ? nullptr : find(*session, channel);
        Json request{{"verb", "enable-channel"}, {"session", name}, {"channel", channel}};
        if (known == nullptr) request["ring_size"] = 65536;
        const bool is_ok = session != nullptr && (known != nullptr || !session->was_started);
        expect(request, is_ok, known != nullptr && known->is_enabled);
        if (known != nullptr)
            known->is_enabled = true;
        else if (is_ok)
            session->channels.push_back({.name = channel});
    }
    void disable_channel() {
        const std::string name = any_session();
        const std::string channel = any_channel();
        Session* const session = find(name);
        Channel* const known = session == nullptr ? nullptr : find(*session, channel);
        expect({{"verb", "disable-channel"}, {"session", name}, {"channel", channel}}, known != nullptr,
               known != nullptr && !known->is_enabled);
        if (known != nullptr) known->is_enabled = false;
    }
    void enable_event() {
        const std::string name = any_session();
        const std::string channel = any_channel();
        const std::string pattern = patterns()[choose_(patterns().size())].text;
        Session* const session = find(name);
        Channel* const known = session == nullptr ? nullptr : find(*session, channel);
        Rule* rule = nullptr;
        if (known != nullptr)
            for (Rule& other : known->rules)
                if (other.pattern == pattern) rule = &other;
        expect({{"verb", "enable-event"}, {"session", name}, {"channel", channel}, {"pattern", pattern}},
               known != nullptr, rule != nullptr && rule->is_enabled);
        if (rule != nullptr)
            rule->is_enabled = true;
        else if (known != nullptr)
            known->rules.push_back({.pattern = pattern});
    }
    void disable_event() {
        const std::string name = any_session();
        const std::string pattern = patterns()[choose_(patterns().size())].text;
        Session* const session = find(name);
        bool is_known = false;
        bool is_changed = false;
        if (session != nullptr)
            for (Channel& channel : session->channels)
                for (Rule& rule : channel.rules) {
                    if (rule.pattern != pattern) continue;
                    is_known = true;
                    is_changed |= std::exchange(rule.is_enabled, false);
                }
        expect({{"verb", "disable-event"}, {"session", name}, {"pattern", pattern}}, is_known, is_known && !is_changed);
    }
    void track() {
        const std::string name = any_session();
        const uid_t uid = any_user();
        const bool is_all = choose_(3) == 0;
        Session* const session = find(name);
        bool is_already = false;
        if (session != nullptr && is_all) is_already = !std::exchange(session->vuids, std::nullopt);
        if (session != nullptr && !is_all) {
            if (!session->vuids) session->vuids.emplace();
            is_already = !session->vuids->insert(uid).second;
        }
        expect({{"verb", "track"}, {"session", name}, {"vuid", is_all ? Json("all") : Json(uid)}}, session != nullptr,
               is_already);
    }
    void untrack() {
        const std::string name = any_session();
        const uid_t uid = any_user();
        Session* const session = find(name);
        const bool is_ok = session != nullptr && session->vuids && session->vuids->erase(uid) == 1;
        expect({{"verb", "untrack"}, {"session", name}, {"vuid", uid}}, is_ok);
    }

    void kill_daemon() {
        daemon_.kill();
        ++kills_;
    }

    void lose_place() {
        daemon_.lose_place(choose_(2) == 0);
        ++losses_;
    }

    // Programs ---------------------------------------------------------------------------------------------------

    // Only root can make files of others.
    uid_t any_user() { return can_be_two_users() ? static_cast<uid_t>(1000 + choose_(2)) : ::geteuid(); }

    void begin_program() {
        if (programs_.size() >= kMaxPrograms) return;
        Program program{
            .uid = any_user(), .bitness = choose_(4) == 0 ? 32U : 64U, .path = {}, .file = {}, .events = {}};
        TestTable table;
        for (std::uint64_t left = choose_(5); left != 0; --left) {
            program.events.push_back(choose_(kEvents.size()));
            table.tracepoints.push_back({.name = kEvents[program.events.back()]});
        }
        const std::string directory = daemon_.apps() / ("leat-" + std::to_string(program.uid));
        if (::mkdir(directory.c_str(), 0700) == 0)
            LEAT_CHECK(::chown(directory.c_str(), program.uid, program.uid) == 0);
        const std::string hidden = fmt::format("{}/{:016x}.new", directory, ++files_);
        program.path = fmt::format("{}/{:016x}.app", directory, files_);
        write(program, hidden, table.bytes());
        LEAT_CHECK(::rename(hidden.c_str(), program.path.c_str()) == 0);
        programs_.push_back(std::move(program));
    }
    static void write(Program& program, const std::string& path, const std::string& table) {
        wire::ControlFileHeader header{};
        header.magic = wire::kControlMagic;
        header.version = wire::kAppVersion;
        header.bitness = static_cast<std::uint16_t>(program.bitness);
        header.tracepoint_count = static_cast<std::uint32_t>(program.events.size());
        header.descriptions_size = static_cast<std::uint32_t>(table.size());
        header.pid = 1;
        std::memcpy(header.procname, "program", 8);
        const wire::ControlLayout layout{header.tracepoint_count, table.size()};
        std::string bytes(layout.size(), '\0');
        std::memcpy(bytes.data(), &header, sizeof header);
        bytes.replace(layout.descriptions(), table.size(), table);
        program.file = UniqueFd(::open(path.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600));
        LEAT_CHECK(program.file.is_open() && ::flock(program.file.get(), LOCK_SH) == 0 &&
                   ::fchown(program.file.get(), program.uid, program.uid) == 0 &&
                   write_all(program.file.get(), untrusted(bytes)));
    }
    // By itself, or killed.
    void end_program() {
        if (programs_.empty()) return;
        const std::size_t which = choose_(programs_.size());
        if (choose_(2) == 0) ::unlink(programs_[which].path.c_str());
        programs_.erase(programs_.begin() + static_cast<std::ptrdiff_t>(which));
    }
    // What comes of it concerns nobody else.
    void scribble() {
        if (programs_.empty()) return;
        Program& program = programs_[choose_(programs_.size())];
        program.is_broken = true;
        const std::uint64_t where = choose_(65536);
        const std::uint64_t what = choose_(1ULL << 60);
        switch (choose_(3)) {
            case 0:
                LEAT_CHECK(::ftruncate(program.file.get(), static_cast<off_t>(where)) == 0);
                break;
            case 1:
                LEAT_CHECK(::pwrite(program.file.get(), &what, sizeof what, static_cast<off_t>(where % 8192)) > 0);
                break;
            default:
                (void)::rename(program.path.c_str(), (daemon_.apps() / "elsewhere").c_str());
        }
    }

    // What must be there ------------------------------------------------------------------------------------------

    static bool matches(const Rule& rule, std::size_t event) {
        for (const Pattern& pattern : patterns())
            if (rule.pattern == pattern.text) return rule.is_enabled && pattern.events.contains(event);
        return false;
    }

    void check() {
        const Json answer = expect({{"verb", "list"}}, true);
        if (!violation_.empty()) return;
        Json known = Json::object();
        for (const Json& session : answer["sessions"]) known[session["name"].get<std::string>()] = shown(session);
        Json expected = Json::object();
        for (const auto& [name, session] : sessions_) expected[name] = shown(session);
        if (known != expected) return violate("list shows {}, not {}", known.dump(), expected.dump());
        for (const Program& program : programs_)
            if (!program.is_broken) check(program);
    }
    static Json shown(const Json& session) {
        Json channels = Json::array();
        for (const Json& channel : session["channels"]) {
            Json rules = Json::array();
            for (const Json& rule : channel["rules"]) rules.push_back({rule["pattern"], rule["enabled"]});
            channels.push_back({channel["name"], channel["enabled"], std::move(rules)});
        }
        return {session["state"], session["tracked"]["vuid"], session["started_once"], std::move(channels)};
    }
    static Json shown(const Session& session) {
        Json channels = Json::array();
        for (const Channel& channel : session.channels) {
            Json rules = Json::array();
            for (const Rule& rule : channel.rules) rules.push_back({rule.pattern, rule.is_enabled});
            channels.push_back({channel.name, channel.is_enabled, std::move(rules)});
        }
        return {session.is_active ? "active" : "inactive", session.vuids ? Json(*session.vuids) : Json("all"),
                session.was_started, std::move(channels)};
    }

    // The first one has its actions first.
    [[nodiscard]] std::vector<std::pair<std::string, const Session*>> sessions_by_age() const {
        std::vector<std::pair<std::string, const Session*>> sessions;
        for (const auto& [name, session] : sessions_) sessions.emplace_back(name, &session);
        std::ranges::sort(sessions, {}, [](const auto& entry) { return entry.second->serial; });
        return sessions;
    }

    void check(const Program& program) {
        wire::ControlFileHeader header{};
        LEAT_CHECK(::pread(program.file.get(), &header, sizeof header, 0) == sizeof header);
        const wire::ControlLayout layout{header.tracepoint_count, header.descriptions_size};
        for (std::size_t i = 0; i < program.events.size(); ++i) {
            const std::vector<wire::Action> actions = actions_of(program, layout, static_cast<std::uint32_t>(i));
            std::size_t at = 0;
            for (const auto& [name, session] : sessions_by_age()) {
                if (!session->is_active || (session->vuids && !session->vuids->contains(program.uid))) continue;
                for (const Channel& channel : session->channels) {
                    bool is_on = false;
                    for (const Rule& rule : channel.rules) is_on |= matches(rule, program.events[i]);
                    if (!is_on || !channel.is_enabled) continue;
                    if (at == actions.size())
                        return violate("{} of user {} is off in {} of {}", kEvents[program.events[i]], program.uid,
                                       channel.name, name);
                    check(actions[at++],
                          fmt::format("{} {} {} {}", session->serial, channel.name, program.uid, program.bitness),
                          program.events[i]);
                }
            }
            if (at != actions.size())
                return violate("{} of user {} is on {} times, not {}", kEvents[program.events[i]], program.uid,
                               actions.size(), at);
        }
    }
    std::vector<wire::Action> actions_of(const Program& program, const wire::ControlLayout& layout, std::uint32_t i) {
        constexpr unsigned kLane = 0;
        const int fd = program.file.get();
        wire::ControlEntry entry{};
        LEAT_CHECK(::pread(fd, &entry, sizeof entry, static_cast<off_t>(layout.entry(i))) == sizeof entry);
        const unsigned byte = entry.word & 0xff;
        if ((entry.word & ~0xffU) != 0) violate("a lane that is not ours is on");
        if (byte == 0) return {};
        const unsigned list = byte & wire::kSecondList;
        std::vector<wire::Action> actions{entry.first[kLane][list]};
        if ((byte & wire::kManyActions) == 0) return actions;
        std::array<wire::Action, wire::kMaxActions - 1> more{};
        const std::uint64_t at = layout.more_actions(i) + (2ULL * kLane + list) * sizeof more;
        LEAT_CHECK(::pread(fd, more.data(), sizeof more, static_cast<off_t>(at)) == sizeof more);
        const unsigned count = std::min<unsigned>(entry.more[kLane][list], more.size());
        actions.insert(actions.end(), more.begin(), more.begin() + count);
        return actions;
    }
    // An id means one event, and a number one channel, for ever.
    void check(const wire::Action& action, const std::string& place, std::size_t event) {
        ++actions_;
        Traced& traced = traced_[place];
        if (traced.number == 0) {
            traced.number = action.channel;
            if (!numbers_.insert(action.channel).second) violate("number {} stands for two channels", action.channel);
        }
        if (traced.number != action.channel) violate("{}: number {} became {}", place, traced.number, action.channel);
        const auto [known, is_new] = traced.ids.try_emplace(event, action.event_id);
        if (known->second != action.event_id)
            violate("{}: {} was {}, is {}", place, kEvents[event], known->second, action.event_id);
        if (!is_new) return;
        for (const auto& [other, id] : traced.ids)
            if (other != event && id == action.event_id) violate("{}: two events are {}", place, id);
    }

    Choose choose_;
    ScratchDaemon daemon_{true};
    std::map<std::string, Session> sessions_;
    std::vector<Program> programs_;
    std::map<std::string, Traced> traced_;
    std::set<std::uint32_t> numbers_;
    std::uint64_t serial_ = 0;
    std::uint64_t outputs_ = 0;
    std::uint64_t files_ = 0;
    std::uint64_t steps_ = 0;
    std::uint64_t actions_ = 0;
    std::uint64_t loaded_ = 0;
    std::uint64_t rotated_ = 0;
    std::uint64_t refusals_ = 0;
    std::uint64_t kills_ = 0;
    std::uint64_t losses_ = 0;  // of the daemon's place
    std::string violation_;
};

}  // namespace leat::test
