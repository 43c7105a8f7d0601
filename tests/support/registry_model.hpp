// A model of programs that register with a session of one or several channels. They come and go, and load and unload
// libraries. Some libraries describe the same event in the same way, some in another. Meanwhile rules are added and
// switched on and off, and programs are asked again. The model knows which ids each must get and what the metadata of
// each trace must say, and reports anything else. Unit tests draw the steps from random numbers, a fuzz target from its
// input.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "ctf/tsdl/tsdl_parser.hpp"
#include "session/event_description.hpp"
#include "session/session.hpp"
#include "support/description_table.hpp"
#include "support/model.hpp"

namespace leat::test {

class RegistryModel {
  public:
    explicit RegistryModel(Choose choose) : choose_(std::move(choose)), session_(any_parameters()) {
        session_.set_active(true);
    }

    // Takes one random step.
    void step() {
        struct Step {
            std::uint64_t weight;
            void (RegistryModel::*take)();
        };
        static constexpr std::array kSteps{
            Step{7, &RegistryModel::load_library},      Step{4, &RegistryModel::load_again},
            Step{1, &RegistryModel::start_another},     Step{1, &RegistryModel::end_program},
            Step{2, &RegistryModel::ask_again},         Step{1, &RegistryModel::ask_all_again},
            Step{2, &RegistryModel::change_rules},      Step{1, &RegistryModel::switch_channel_or_session},
            Step{4, &RegistryModel::describe_any},      Step{1, &RegistryModel::begin_thread_stream},
            Step{2, &RegistryModel::read_any_metadata},
        };
        std::uint64_t all = 0;
        for (const Step& step : kSteps) all += step.weight;
        ++steps_;
        std::uint64_t chosen = choose_(all);
        for (const Step& step : kSteps) {
            if (chosen < step.weight) {
                (this->*step.take)();
                break;
            }
            chosen -= step.weight;
        }
        check_counts();
    }

    // Describes all classes that were handed over, and reads them once more. No step may follow.
    void finish() {
        for (auto& [key, trace] : traces_) {
            for (std::size_t channel = 0; channel < trace.channels.size(); ++channel) describe(trace, channel);
            read_metadata(trace);
            const auto whole = ctf::parse_tsdl(trace.metadata);
            if (!whole) return violate("the metadata cannot be read as a whole: {}", whole.error().message);
            check_streams(trace, *whole);
        }
    }

    [[nodiscard]] const std::string& violation() const { return violation_; }
    // Counts, to check that the steps achieve something.
    [[nodiscard]] std::uint64_t ids() const {
        std::uint64_t ids = 0;
        for (const auto& [key, trace] : traces_)
            for (const Channel& channel : trace.channels) ids += channel.by_id.size();
        return ids;
    }
    [[nodiscard]] std::uint64_t known() const { return known_; }
    [[nodiscard]] std::uint64_t conflicts() const { return conflicts_; }
    [[nodiscard]] std::uint64_t refusals() const { return refusals_; }
    [[nodiscard]] std::uint64_t versions() const { return versions_; }
    [[nodiscard]] std::uint64_t asked_again() const { return asked_again_; }
    [[nodiscard]] std::uint64_t traces() const { return traces_.size(); }

  private:
    // Which event it is, and in which way a source file describes it.
    struct Site {
        std::uint64_t event;
        std::uint64_t variant;
        std::uint32_t line;
    };
    // Its tracepoints are those of all programs that were started from the same file. Others have read them anew.
    struct Library {
        std::vector<Site> sites{};
        std::shared_ptr<const session::Tracepoints> tracepoints{};
    };
    struct Program {
        session::Application application;
        std::vector<Library> libraries{};  // those that are loaded
    };

    // What a channel of a trace must know of an event that was described in this way.
    struct Version {
        std::uint64_t variant;
        std::uint32_t id;
        std::string origin;  // "program (1), model.c:12"
    };
    // What it has said of a tracepoint.
    enum class Said : std::uint8_t { kNothing, kId, kConflict, kBad };
    struct Answer {
        Said said = Said::kNothing;
        std::uint32_t id = wire::kNotEnabled;
    };
    struct Channel {
        std::map<std::uint64_t, std::vector<Version>> events{};
        std::vector<ctf::EventClass> by_id{};
        std::map<const session::Tracepoints*, std::vector<Answer>> answers{};
        std::size_t described = 0;  // the first so many
        bool has_threads = false;
        bool are_threads_described = false;
    };
    struct Trace {
        session::Trace* real = nullptr;
        std::vector<Channel> channels{};
        std::string metadata{};
        std::unique_ptr<ctf::TsdlReader> reader = std::make_unique<ctf::TsdlReader>();
    };

    static constexpr std::uint64_t kRingSize = ring::kMinRingSize;
    static constexpr std::uint64_t kEvents = 24;
    static constexpr std::uint64_t kVariants = 10;
    static constexpr std::uint64_t kBadVariants = 2;   // the last ones
    static constexpr std::size_t kMaxWarnings = 20;    // in one answer
    static constexpr std::size_t kMaxConflicts = 100;  // that a session remembers
    static constexpr std::size_t kMaxPrograms = 6;
    static constexpr std::size_t kMaxLibraries = 1000;  // fewer than a channel remembers
    static constexpr std::size_t kMaxRules = 4;         // of a channel

    template <class... Arguments>
    void violate(fmt::format_string<Arguments...> text, Arguments&&... arguments) {
        if (violation_.empty())
            violation_ = fmt::format("step {}: {}", steps_, fmt::format(text, std::forward<Arguments>(arguments)...));
    }

    session::Session::Parameters any_parameters() {
        using Buffers = session::Session::Buffers;
        const std::array<Buffers, 8> buffers{Buffers::kEverybody, Buffers::kEverybody, Buffers::kEverybody,
                                             Buffers::kUser,      Buffers::kUser,      Buffers::kUser,
                                             Buffers::kUser,      Buffers::kPid};
        session::Session::Parameters parameters{.name = "model", .buffers = buffers[choose_(buffers.size())], .uid = 7};
        for (std::uint64_t count = choose_(3) + 1; count != 0; --count) {
            session::Channel channel{.name = fmt::format("channel{}", count), .ring_size = kRingSize};
            channel.header = choose_(2) == 0 ? ring::HeaderKind::kCompact : ring::HeaderKind::kLarge;
            channel.rules = {any_rule()};
            parameters.channels.push_back(std::move(channel));
        }
        return parameters;
    }

    session::EventRule any_rule() {
        const std::array<session::EventRule, 5> rules{session::EventRule{},
                                                      {.pattern = "a:*"},
                                                      {.exclusions = {"b:*1*"}},
                                                      {.log_level = 6},
                                                      {.log_level = 6, .is_log_level_only = true}};
        session::EventRule rule = rules[choose_(rules.size())];
        if (choose_(4) == 0) rule.on_conflict = session::OnConflict::kVersion;
        return rule;
    }

    static std::string name_of(std::uint64_t event) {
        return fmt::format("{}:event {}", event % 2 == 0 ? "a" : "b", event);
    }
    static bool is_bad(std::uint64_t variant) { return variant >= kVariants - kBadVariants; }

    // Any two tracepoints differ in something that distinguishes event classes.
    static TestTracepoint tracepoint_of(const Site& site) {
        TestTracepoint tracepoint{.name = name_of(site.event), .file = "model.c", .line = site.line};
        constexpr std::uint8_t kSigned = 1;  // <leat/abi.h>
        switch (site.variant) {
            case 0:
                break;
            case 1:
                tracepoint.fields = {{.name = "a"}};
                break;
            case 2:
                tracepoint.fields = {{.name = "a", .element_size = 8}};
                break;
            case 3:
                tracepoint.fields = {{.name = "b"}};
                break;
            case 4:
                tracepoint.fields = {{.name = "a"}, {.name = "b"}};
                break;
            case 5:
                tracepoint.fields = {{.name = "b"}, {.name = "a"}};
                break;
            case 6:
                tracepoint.fields = {{.name = "a"}};
                tracepoint.log_level = 5;
                break;
            case 7:
                tracepoint.fields = {{.name = "a", .flags = kSigned}};
                break;
            case 8:
                tracepoint.fields = {{.name = "a"}, {.name = "a"}};
                break;
            default:
                tracepoint.log_level = 99;
        }
        return tracepoint;
    }

    // Programs --------------------------------------------------------------------------------------------------------

    void begin_program() {
        Program program;
        program.application = {.pid = next_pid_,
                               .vpid = next_pid_,
                               .uid = static_cast<uid_t>(1000 + choose_(2)),
                               .procname = "program",
                               .bitness = choose_(8) == 7 ? 32U : 64U};
        ++next_pid_;
        programs_.push_back(std::move(program));
    }

    Program& any_program() {
        if (programs_.empty()) begin_program();
        return programs_[choose_(programs_.size())];
    }

    void load_library() {
        if (libraries_.size() >= kMaxLibraries) return;
        Library library;
        for (std::uint64_t left = choose_(8); left != 0; --left) {
            // Most libraries describe an event as others do.
            const std::uint64_t event = choose_(kEvents);
            const std::uint64_t variant = choose_(3) == 0 ? choose_(kVariants) : event % (kVariants - kBadVariants);
            library.sites.push_back({event, variant, static_cast<std::uint32_t>(1 + choose_(1'000))});
        }
        read(library);
        load(any_program(), library);
    }

    // Reads what a program says of its tracepoints.
    void read(Library& library) {
        TestTable table;
        for (const Site& site : library.sites) table.tracepoints.push_back(tracepoint_of(site));
        auto parsed = wire::parse_descriptions(untrusted(table.bytes()));
        if (!parsed) return violate("a table cannot be read: {}", parsed.error().message);
        library.tracepoints = std::make_shared<const session::Tracepoints>(*std::move(parsed));
        libraries_.push_back(library);
    }

    // Loads a library that was loaded before into this program or another. It may have been unloaded since.
    void load_again() {
        if (libraries_.empty() || libraries_.size() >= kMaxLibraries) return;
        Library library = libraries_[choose_(libraries_.size())];
        if (choose_(2) == 0) read(library);
        load(any_program(), library);
    }

    // Starts a program with all that another one has loaded.
    void start_another() {
        if (programs_.empty() || programs_.size() == kMaxPrograms) return;
        const std::vector<Library> libraries = any_program().libraries;
        begin_program();
        for (const Library& library : libraries) load(programs_.back(), library);
    }

    void end_program() {
        if (!programs_.empty())
            programs_.erase(programs_.begin() + static_cast<std::ptrdiff_t>(choose_(programs_.size())));
    }

    void load(Program& program, const Library& library) {
        if (!violation_.empty()) return;
        ++registrations_;
        session_.count(application_of(program, library));
        for (const wire::TracepointDescription& tracepoint : *library.tracepoints) names_.insert(tracepoint.name);
        ask(program, library);
        if (program.libraries.size() < 3) program.libraries.push_back(library);
    }

    static session::Application application_of(const Program& program, const Library& library) {
        session::Application application = program.application;
        application.tracepoints = library.tracepoints;
        return application;
    }

    void ask_again() {
        if (programs_.empty()) return;
        const Program& program = any_program();
        for (const Library& library : program.libraries) ask(program, library);
    }

    void ask_all_again() {
        for (const Program& program : programs_)
            for (const Library& library : program.libraries) ask(program, library);
    }

    // Rules -----------------------------------------------------------------------------------------------------------

    void change_rules() {
        std::vector<session::Channel>& channels = session_.channels();
        std::vector<session::EventRule>& rules = channels[choose_(channels.size())].rules;
        const std::uint64_t how = choose_(4);
        if (how == 0 && rules.size() < kMaxRules) return rules.push_back(any_rule());
        session::EventRule& rule = rules[choose_(rules.size())];
        if (!rule.is_enabled)
            rule.is_enabled = true;
        else if (how == 1)
            rule.on_conflict = session::OnConflict::kVersion;
        else if (how == 2)
            rule.on_conflict = session::OnConflict::kRefuse;
        else
            rule.is_enabled = false;
    }

    // Switches the session or a channel off, or everything on again.
    void switch_channel_or_session() {
        std::vector<session::Channel>& channels = session_.channels();
        const bool is_off = !session_.is_active() || !std::ranges::all_of(channels, &session::Channel::is_enabled);
        const std::uint64_t which = choose_(channels.size() + 1);
        if (is_off) {
            session_.set_active(true);
            for (session::Channel& channel : channels) channel.is_enabled = true;
        } else if (which == channels.size()) {
            session_.set_active(false);
        } else {
            channels[which].is_enabled = false;
        }
    }

    // Answers ---------------------------------------------------------------------------------------------------------

    // What an application must be told.
    struct Expected {
        std::vector<std::vector<wire::Action>> actions{};
        std::vector<const session::TraceChannel*> channels{};
        std::vector<std::string> warnings{};  // parts of them
    };

    void ask(const Program& program, const Library& library) {
        if (!violation_.empty()) return;
        const session::Application application = application_of(program, library);
        session::Orders orders(library.sites.size());
        session_.add_orders(application, orders);
        Expected expected{.actions = std::vector<std::vector<wire::Action>>(library.sites.size())};
        if (session_.is_active())
            for (std::size_t channel = 0; channel < session_.channels().size(); ++channel)
                if (session_.channels()[channel].is_enabled) expect(application, library, channel, expected);
        check(library, orders, expected);
    }

    // Adds what one channel must want.
    void expect(const session::Application& application, const Library& library, std::size_t index,
                Expected& expected) {
        const std::vector<session::EventRule>& rules = session_.channels()[index].rules;
        Trace* trace = nullptr;
        for (std::size_t i = 0; i < library.sites.size(); ++i) {
            const wire::TracepointDescription& tracepoint = (*library.tracepoints)[i];
            auto conflict = session::OnConflict::kRefuse;
            bool is_wanted = false;
            for (const session::EventRule& rule : rules) {
                if (!rule.is_enabled || !rule.matches(tracepoint.name, tracepoint.log_level)) continue;
                is_wanted = true;
                conflict = std::max(conflict, rule.on_conflict);
            }
            if (!is_wanted) continue;
            if (trace == nullptr) {
                trace = find_trace(application);
                if (trace == nullptr) return;
                expected.channels.push_back(trace->real->channels()[index].get());
            }
            std::vector<Answer>& answers = trace->channels[index].answers[library.tracepoints.get()];
            answers.resize(library.sites.size());
            answer(trace->channels[index], answers[i], library.sites[i], tracepoint, application.name(), conflict,
                   expected.warnings);
            if (answers[i].said == Said::kId)
                expected.actions[i].push_back(
                    {.event_id = answers[i].id, .channel = trace->real->channels()[index]->number()});
        }
    }

    // The session must have made it by now.
    Trace* find_trace(const session::Application& application) {
        const session::RegistryKey key = session_.key_of(application);
        const auto found = session_.traces().find(key);
        if (found == session_.traces().end()) {
            violate("{} has no trace", application.name());
            return nullptr;
        }
        Trace& trace = traces_[key];
        if (std::exchange(trace.real, found->second.get()) == nullptr) {
            trace.channels.resize(session_.channels().size());
            trace.metadata = trace.real->initial_metadata();
        }
        return &trace;
    }

    void answer(Channel& channel, Answer& answer, const Site& site, const wire::TracepointDescription& tracepoint,
                const std::string& program, session::OnConflict on_conflict, std::vector<std::string>& warnings) {
        const bool may_change = answer.said == Said::kConflict && on_conflict == session::OnConflict::kVersion;
        if (answer.said != Said::kNothing && !may_change) {
            ++asked_again_;
            return;
        }
        if (is_bad(site.variant)) {
            ++refusals_;
            answer.said = Said::kBad;
            warnings.push_back(fmt::format("{}: tracepoint \"{}\" of model.c:{} is not recorded: ", program,
                                           tracepoint.name, site.line));
            return;
        }
        std::vector<Version>& versions = channel.events[site.event];
        const std::string origin = fmt::format("{}, model.c:{}", program, site.line);
        const auto known = std::ranges::find(versions, site.variant, &Version::variant);
        if (known != versions.end()) {
            ++known_;
            answer = {Said::kId, known->id};
        } else if (!versions.empty() && on_conflict == session::OnConflict::kRefuse) {
            ++conflicts_;
            answer.said = Said::kConflict;
            warnings.push_back(fmt::format("event \"{}\" of {} differs from that of {}: ", tracepoint.name, origin,
                                           versions.front().origin));
        } else {
            if (!versions.empty()) ++versions_;
            auto event_class = session::event_class_of(tracepoint);
            if (!event_class) return violate("\"{}\": {}", tracepoint.name, event_class.error().message);
            answer = {Said::kId, static_cast<std::uint32_t>(channel.by_id.size())};
            event_class->id = answer.id;
            channel.by_id.push_back(*std::move(event_class));
            versions.push_back({site.variant, answer.id, origin});
        }
    }

    void check(const Library& library, const session::Orders& orders, const Expected& expected) {
        for (std::size_t i = 0; i < library.sites.size(); ++i) {
            const std::string name = name_of(library.sites[i].event);
            const auto& actions = orders.actions[i];
            if (actions.size() != expected.actions[i].size())
                return violate("\"{}\" is wanted by {} channels, not {}", name, actions.size(),
                               expected.actions[i].size());
            for (std::size_t a = 0; a < actions.size(); ++a)
                if (actions[a].event_id != expected.actions[i][a].event_id ||
                    actions[a].channel != expected.actions[i][a].channel)
                    return violate("\"{}\" gets id {} in channel {}, not {} in {}", name, actions[a].event_id,
                                   actions[a].channel, expected.actions[i][a].event_id, expected.actions[i][a].channel);
        }
        if (orders.channels != expected.channels)
            violate("{} channels, not {}", orders.channels.size(), expected.channels.size());
        check_warnings(orders.warnings, expected.warnings);
    }

    void check_warnings(const std::vector<std::string>& told, const std::vector<std::string>& expected) {
        const std::size_t most = std::min(expected.size(), kMaxWarnings);
        if (told.size() != most + (expected.size() > most ? 1 : 0))
            return violate("{} warnings, of {} refusals", told.size(), expected.size());
        for (std::size_t i = 0; i < most; ++i)
            if (!told[i].starts_with(expected[i]) || told[i].find("nothing that can be seen") != std::string::npos)
                violate("\"{}\" is told of {}", told[i], expected[i]);
    }

    void check_counts() {
        const session::Session::Counts counts = session_.counts();
        if (counts.registrations != registrations_ || counts.tracepoints != names_.size() || counts.enabled != ids())
            violate("{} registrations, {} tracepoints and {} ids are counted; there were {}, {} and {}",
                    counts.registrations, counts.tracepoints, counts.enabled, registrations_, names_.size(), ids());
        if (session_.traces().size() != traces_.size())
            violate("{} traces, not {}", session_.traces().size(), traces_.size());
        if (session_.conflicts().size() != std::min<std::size_t>(conflicts_, kMaxConflicts))
            violate("{} conflicts, not {}", session_.conflicts().size(), conflicts_);
    }

    // Metadata --------------------------------------------------------------------------------------------------------

    Trace* any_trace() {
        if (traces_.empty()) return nullptr;
        return &std::next(traces_.begin(), static_cast<std::ptrdiff_t>(choose_(traces_.size())))->second;
    }

    void describe_any() {
        Trace* const trace = any_trace();
        if (trace != nullptr) describe(*trace, choose_(trace->channels.size()));
    }

    // A thread has a ring of its own in some channel.
    void begin_thread_stream() {
        Trace* const trace = any_trace();
        if (trace != nullptr) trace->channels[choose_(trace->channels.size())].has_threads = true;
    }

    void describe(Trace& trace, std::size_t index) {
        Channel& channel = trace.channels[index];
        channel.described = channel.by_id.size();
        trace.metadata += trace.real->channels()[index]->describe_new(channel.has_threads);
        const std::string again = trace.real->channels()[index]->describe_new(channel.has_threads);
        if (!again.empty()) violate("what was described is described again: {}", again);
        channel.are_threads_described = channel.has_threads;
    }

    void read_any_metadata() {
        Trace* const trace = any_trace();
        if (trace != nullptr) read_metadata(*trace);
    }

    // Reads the metadata as a follower of the trace does.
    void read_metadata(Trace& trace) {
        const auto read = trace.reader->read(trace.metadata);
        if (!read) return violate("the metadata cannot be read: {}", read.error().message);
        check_streams(trace, *trace.reader->trace_class());
    }

    void check_streams(const Trace& trace, const ctf::TraceClass& read) {
        if (read.streams.size() != 2 * trace.channels.size()) return violate("{} stream classes", read.streams.size());
        for (const ctf::StreamClass& stream : read.streams) {
            const Channel& channel = trace.channels.at(stream.id / 2);
            const bool is_empty = stream.id % 2 == 1 && !channel.are_threads_described;
            const std::size_t expected = is_empty ? 0 : channel.described;
            if (stream.events.size() != expected)
                return violate("stream class {} has {} event classes, not {}", stream.id, stream.events.size(),
                               expected);
            for (const ctf::EventClass& event_class : stream.events)
                if (event_class.id >= channel.by_id.size() || !(event_class == channel.by_id[event_class.id]))
                    return violate("event class {} \"{}\" reads otherwise than it was registered", event_class.id,
                                   event_class.name);
        }
    }

    Choose choose_;
    std::uint64_t steps_ = 0;
    std::string violation_;
    session::Session session_;
    std::map<session::RegistryKey, Trace> traces_;

    std::int32_t next_pid_ = 1;
    std::vector<Program> programs_;
    std::vector<Library> libraries_;
    std::set<std::string> names_;
    std::uint64_t registrations_ = 0;
    std::uint64_t known_ = 0;
    std::uint64_t conflicts_ = 0;
    std::uint64_t refusals_ = 0;
    std::uint64_t versions_ = 0;
    std::uint64_t asked_again_ = 0;
};

}  // namespace leat::test
