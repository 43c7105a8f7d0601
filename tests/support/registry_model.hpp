// A model of programs that register with a session. They come and go, and load and unload libraries. Some libraries
// describe the same event in the same way, some in another. The model knows which id each must get and what the
// metadata must say, and reports anything else. Unit tests draw the steps from random numbers, a fuzz target from its
// input.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <deque>
#include <map>
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
    explicit RegistryModel(Choose choose)
        : choose_(std::move(choose)),
          rules_(any_rules()),
          session_(*session::Session::create({.name = "model", .rules = rules_, .ring_size = kRingSize})),
          metadata_(session_.initial_metadata()) {}

    // Takes one random step.
    void step() {
        ++steps_;
        const std::uint64_t what = choose_(16);
        if (what < 5)
            load_library();
        else if (what < 7)
            load_again();
        else if (what < 8)
            start_another();
        else if (what < 9)
            end_program();
        else if (what < 13)
            describe(choose_(4) + 1);
        else if (what < 14)
            describe_threads();
        else
            read_metadata();
        check_counts();
    }

    // Describes all classes that were handed over, and reads them once more. No step may follow.
    void finish() {
        describe(handed_over_.size());
        read_metadata();
        const auto whole = ctf::parse_tsdl(metadata_);
        if (!whole) return violate("the metadata cannot be read as a whole: {}", whole.error().message);
        check_streams(*whole);
    }

    [[nodiscard]] const std::string& violation() const { return violation_; }
    // Counts, to check that the steps achieve something.
    [[nodiscard]] std::uint64_t ids() const { return by_id_.size(); }
    [[nodiscard]] std::uint64_t known() const { return known_; }
    [[nodiscard]] std::uint64_t conflicts() const { return conflicts_; }
    [[nodiscard]] std::uint64_t refusals() const { return refusals_; }

  private:
    // Which event it is, and in which way a source file describes it.
    struct Site {
        std::uint64_t event;
        std::uint64_t variant;
        std::uint32_t line;
    };
    using Library = std::vector<Site>;
    struct Program {
        std::int32_t pid;
        std::vector<std::uint64_t> libraries{};  // those that are loaded
    };
    struct Event {
        std::uint64_t variant;
        std::uint32_t id;
        std::uint32_t line;
        ctf::EventClass event_class;
    };

    // Larger rings are fewer in number. They take no memory here.
    static constexpr std::uint64_t kRingSize = ring::kMaxRingSize;
    static constexpr std::uint64_t kEvents = 24;
    static constexpr std::uint64_t kVariants = 10;
    static constexpr std::uint64_t kBadVariants = 2;  // the last ones
    static constexpr std::size_t kMaxWarnings = 20;   // in one registration
    static constexpr std::size_t kMaxPrograms = 6;

    template <class... Arguments>
    void violate(fmt::format_string<Arguments...> text, Arguments&&... arguments) {
        if (violation_.empty())
            violation_ = fmt::format("step {}: {}", steps_, fmt::format(text, std::forward<Arguments>(arguments)...));
    }

    session::EventRules any_rules() {
        const std::array<session::EventRules, 4> rules{
            session::EventRules{}, {.patterns = {"a:*"}}, {.exclusions = {"b:*1*"}}, {.log_level = 6}};
        return rules.at(choose_(rules.size()));
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

    Program& any_program() {
        if (programs_.empty()) programs_.push_back({.pid = next_pid_++});
        return programs_[choose_(programs_.size())];
    }

    void load_library() {
        Library library;
        for (std::uint64_t left = choose_(8); left != 0; --left) {
            // Most libraries describe an event as others do.
            const std::uint64_t event = choose_(kEvents);
            const std::uint64_t variant = choose_(3) == 0 ? choose_(kVariants) : event % (kVariants - kBadVariants);
            library.push_back({event, variant, static_cast<std::uint32_t>(1 + choose_(1'000))});
        }
        libraries_.push_back(std::move(library));
        load(any_program(), libraries_.size() - 1);
    }

    // Loads a library that was loaded before into this program or another. It may have been unloaded since.
    void load_again() {
        if (!libraries_.empty()) load(any_program(), choose_(libraries_.size()));
    }

    // Starts a program with all that another one has loaded.
    void start_another() {
        if (programs_.empty() || programs_.size() == kMaxPrograms) return;
        const std::vector<std::uint64_t> libraries = any_program().libraries;
        programs_.push_back({.pid = next_pid_++});
        for (const std::uint64_t library : libraries) load(programs_.back(), library);
    }

    void end_program() {
        if (!programs_.empty())
            programs_.erase(programs_.begin() + static_cast<std::ptrdiff_t>(choose_(programs_.size())));
    }

    void load(Program& program, std::uint64_t number) {
        const Library& library = libraries_[number];
        TestTable table;
        for (const Site& site : library) table.tracepoints.push_back(tracepoint_of(site));
        auto parsed = wire::parse_descriptions(untrusted(table.bytes()));
        if (!parsed) return violate("a table cannot be read: {}", parsed.error().message);
        ++registrations_;
        const wire::AppRegistration registration{
            .pid = program.pid, .uid = 1000, .procname = "program", .tracepoints = *parsed};
        check(registration, library, session_.register_application(registration));
        if (program.libraries.size() < 3) program.libraries.push_back(number);
    }

    // Registrations ---------------------------------------------------------------------------------------------------

    void check(const wire::AppRegistration& registration, const Library& library,
               const session::RegistrationOutcome& outcome) {
        if (outcome.event_ids.size() != library.size())
            return violate("{} ids for {} tracepoints", outcome.event_ids.size(), library.size());
        std::vector<std::string> warnings;
        std::vector<ctf::EventClass> news;
        for (std::size_t i = 0; i < library.size(); ++i)
            check_site(library[i], registration.tracepoints[i], outcome.event_ids[i], news, warnings);
        if (outcome.new_classes != news)
            violate("{} new event classes, not {}", outcome.new_classes.size(), news.size());
        check_warnings(outcome.warnings, warnings);
        for (const ctf::EventClass& event_class : outcome.new_classes) handed_over_.push_back(event_class);
    }

    void check_site(const Site& site, const wire::TracepointDescription& tracepoint, std::uint32_t id,
                    std::vector<ctf::EventClass>& news, std::vector<std::string>& warnings) {
        const std::string name = name_of(site.event);
        names_.insert(tracepoint.name);
        if (!rules_.matches(tracepoint.name, tracepoint.log_level)) {
            if (id != wire::kNotEnabled) violate("\"{}\" is not asked for, and gets id {}", name, id);
            return;
        }
        const auto known = events_.find(site.event);
        if (is_bad(site.variant)) {
            ++refusals_;
            if (id != wire::kNotEnabled) violate("\"{}\" makes no sense, and gets id {}", name, id);
            warnings.push_back(fmt::format("model.c:{} is not recorded", site.line));
        } else if (known == events_.end()) {
            if (id != by_id_.size()) violate("\"{}\" is new, and gets id {}, not {}", name, id, by_id_.size());
            auto event_class = session::event_class_of(tracepoint);
            if (!event_class) return violate("\"{}\": {}", name, event_class.error().message);
            event_class->id = by_id_.size();
            events_[site.event] = {site.variant, static_cast<std::uint32_t>(by_id_.size()), site.line, *event_class};
            by_id_.push_back(site.event);
            news.push_back(*std::move(event_class));
        } else if (known->second.variant == site.variant) {
            ++known_;
            if (id != known->second.id) violate("\"{}\" is known as {}, and gets id {}", name, known->second.id, id);
        } else {
            ++conflicts_;
            if (id != wire::kNotEnabled) violate("\"{}\" is known otherwise, and gets id {}", name, id);
            warnings.push_back(
                fmt::format("event \"{}\" of model.c:{} has {} than that of model.c:{}", name, site.line,
                            (site.variant == 6) != (known->second.variant == 6) ? "another log level" : "other fields",
                            known->second.line));
        }
    }

    void check_warnings(const std::vector<std::string>& told, const std::vector<std::string>& expected) {
        const std::size_t most = std::min(expected.size(), kMaxWarnings);
        if (told.size() != most + (expected.size() > most ? 1 : 0))
            return violate("{} warnings, of {} refusals", told.size(), expected.size());
        for (std::size_t i = 0; i < most; ++i)
            if (told[i].find(expected[i]) == std::string::npos) violate("\"{}\" is told of {}", told[i], expected[i]);
    }

    void check_counts() {
        const session::Session::Counts counts = session_.counts();
        if (counts.registrations != registrations_ || counts.tracepoints != names_.size() ||
            counts.enabled != by_id_.size())
            violate("{} registrations, {} tracepoints and {} ids are counted; there were {}, {} and {}",
                    counts.registrations, counts.tracepoints, counts.enabled, registrations_, names_.size(),
                    by_id_.size());
    }

    // Metadata --------------------------------------------------------------------------------------------------------

    // Describes up to `count` of the classes that were handed over, the first ones first, in one unit.
    void describe(std::size_t count) {
        std::vector<ctf::EventClass> classes;
        for (; count != 0 && !handed_over_.empty(); --count) {
            classes.push_back(std::move(handed_over_.front()));
            handed_over_.pop_front();
        }
        described_ += classes.size();
        metadata_ += session_.describe(classes);
    }

    void describe_threads() {
        const std::string unit = session_.describe_thread_streams();
        if (std::exchange(has_threads_, true) && !unit.empty()) violate("the streams of threads are described again");
        metadata_ += unit;
    }

    // Reads the metadata as a follower of the trace does.
    void read_metadata() {
        const auto read = reader_->read(metadata_);
        if (!read) return violate("the metadata cannot be read: {}", read.error().message);
        check_streams(*reader_->trace_class());
    }

    void check_streams(const ctf::TraceClass& trace) {
        if (trace.streams.size() != 2) return violate("{} stream classes", trace.streams.size());
        for (const ctf::StreamClass& stream : trace.streams) {
            const bool is_empty = stream.id == session::kThreadStreamClassId && !has_threads_;
            const std::size_t expected = is_empty ? 0 : described_;
            if (stream.events.size() != expected)
                return violate("stream class {} has {} event classes, not {}", stream.id, stream.events.size(),
                               expected);
            for (const ctf::EventClass& event_class : stream.events)
                if (event_class.id >= by_id_.size() || !(event_class == events_.at(by_id_[event_class.id]).event_class))
                    return violate("event class {} \"{}\" reads otherwise than it was registered", event_class.id,
                                   event_class.name);
        }
    }

    Choose choose_;
    std::uint64_t steps_ = 0;
    std::string violation_;
    session::EventRules rules_;
    session::Session session_;
    std::string metadata_;
    std::unique_ptr<ctf::TsdlReader> reader_ = std::make_unique<ctf::TsdlReader>();

    std::int32_t next_pid_ = 1;
    std::vector<Program> programs_;
    std::vector<Library> libraries_;
    std::map<std::uint64_t, Event> events_;
    std::vector<std::uint64_t> by_id_;         // events
    std::deque<ctf::EventClass> handed_over_;  // not yet described
    std::size_t described_ = 0;
    bool has_threads_ = false;
    std::set<std::string> names_;
    std::uint64_t registrations_ = 0;
    std::uint64_t known_ = 0;
    std::uint64_t conflicts_ = 0;
    std::uint64_t refusals_ = 0;
};

}  // namespace leat::test
