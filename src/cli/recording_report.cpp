#include "cli/recording_report.hpp"

#include <array>
#include <cstdio>
#include <fstream>
#include <nlohmann/json.hpp>

#include "base/printable_text.hpp"
#include "base/shell_word.hpp"
#include "cli/program_file.hpp"
#include "cli/steer/limit_options.hpp"
#include "cli/steer/quantities.hpp"
#include "cli/tell.hpp"

namespace leat::cli {
namespace {

using ring::DiscardReason;

struct Reason {
    DiscardReason reason;
    const char* key;
    const char* remedy;
};
constexpr std::array kReasons{
    Reason{DiscardReason::kRingFull, "ring_full", "the rings were full: try a larger --ring-size"},
    Reason{DiscardReason::kTooLarge, "too_large", "larger than a quarter of a ring (see --ring-size), or than 256 KiB"},
    Reason{DiscardReason::kNoRing, "no_ring", "too many threads at once without rseq"},
    Reason{DiscardReason::kInterrupted, "interrupted",
           "in signal handlers of a thread without rseq, or too many large ones at once"},
    Reason{DiscardReason::kBorrowed, "borrowed", "between vfork and exec, in too many processes at once"},
};

const char* plural(std::uint64_t count) { return count == 1 ? "" : "s"; }

}  // namespace

std::string RecordingReport::why_nothing() const {
    const session::Session::Counts counts = recorder_.counts();
    if (counts.registrations == 0) return why_unregistered();
    if (counts.tracepoints == 0) return "the program has no tracepoints";
    // A program that is slow to start has none that match by then.
    const bool is_stopped = recorder_.stopped_by() != session::StoppedBy::kNobody;
    const std::string stop = is_stopped ? text_of_stop(recorder_.stopped_by(), program_.limits) + ": until then, " : "";
    if (counts.enabled == 0)
        return fmt::format("{}none of its {} tracepoint{} matched: see -e, -x and -l", stop, counts.tracepoints,
                           plural(counts.tracepoints));
    return fmt::format("{}{} tracepoint{} matched, but none was reached", stop, counts.enabled, plural(counts.enabled));
}

std::string RecordingReport::why_unregistered() const {
    if (recorder_.has_refused_programs()) return "the versions of program and recorder do not match: see the warning";
    if (const auto obstacle = find_obstacle(program_.name))
        return fmt::format("{}: {}", obstacle->reason, obstacle->remedy);
    if (!program_.is_preloaded) {
        const std::string end =
            end_.signal != 0 ? fmt::format(" before {} ended with status {}", program_.name, end_.exit_status) : "";
        return fmt::format(
            "no traced library was loaded{}: link the program with libleat, or trace it with --preload libc", end);
    }
    return fmt::format(
        "{} ended before it had loaded the libraries of --preload, or could not reach us: see whether it starts "
        "without "
        "leat record, and its limits (ulimit -a)",
        program_.name);
}

std::string RecordingReport::closing_line() const {
    const consumer::Totals totals = this->totals();
    const std::uint64_t discarded = this->discarded();
    if (recording_.is_for_snapshots()) return closing_line_of_snapshots();
    if (totals.events == 0 && discarded == 0) {
        if (recording_.output_error()) return "nothing could be stored";
        return totals.left_in_rings != 0 ? "nothing was recorded before the end"
                                         : fmt::format("nothing was recorded: {}", why_nothing());
    }
    const std::uint64_t lost = relay() != nullptr && !destination_.has_directory() ? relay()->figures().events_lost : 0;
    const std::uint64_t events = totals.events - std::min(lost, totals.events);
    return fmt::format("{} event{}, {}, {} stream{}, {} discarded; {}", events, plural(events),
                       size_for_people(totals.bytes), totals.streams, plural(totals.streams), discarded,
                       how_to_see_them());
}

std::string RecordingReport::how_to_see_them() const {
    const output::RelayOutput* output = relay();
    if (output == nullptr || destination_.has_directory())
        return fmt::format("see them with: leat view {}", shell_word(destination_.directory.string()));
    return fmt::format("the relay has them in {}/{}-DATE below its --output directory", output->session().hostname,
                       output->session().name);
}

std::string RecordingReport::closing_line_of_snapshots() const {
    const std::uint64_t discarded = this->discarded();
    if (snapshots_.events() == 0 && snapshots_.has_failed()) return "no snapshot could be stored";
    if (snapshots_.events() == 0 && discarded == 0) return fmt::format("nothing was recorded: {}", why_nothing());
    if (destination_.relay)
        return fmt::format("{} snapshot{} at relay {}, {} discarded", snapshots_.count(), plural(snapshots_.count()),
                           to_text(*destination_.relay), discarded);
    return fmt::format("{} snapshot{}, {} discarded; see them together with: leat view {}", snapshots_.count(),
                       plural(snapshots_.count()), discarded, shell_word(where()));
}

// Where the trace is, as an argument of `leat view`. We can guess where a relay's readers connect only if the relay has
// the usual ports.
std::string RecordingReport::where() const {
    const output::RelayOutput* output = relay();
    if (output == nullptr && !destination_.has_directory()) return to_text(*destination_.relay);
    if (output == nullptr) return destination_.directory.string();
    const net::RelayAddress& address = output->address();
    const bool is_usual = address.control_port == net::kControlPort;
    const std::string host = address.host.find(':') == std::string::npos ? address.host : "[" + address.host + "]";
    return fmt::format("net://{}{}/host/{}/{}", host, is_usual ? "" : ":LIVE-PORT", output->session().hostname,
                       output->session().name);
}

void RecordingReport::print_output_error() const {
    const std::uint64_t left = totals().left_in_rings;
    if (relay() == nullptr)
        return tell("leat: {}: the trace lacks its last {} event{}; make room, or choose another place with -o",
                    recording_.output_error()->message, left, plural(left));
    const std::uint64_t lost = relay()->figures().events_lost + left;
    tell("leat: {}: the trace lacks {} event{}; check the relay, or record with -o DIR",
         recording_.output_error()->message, lost, plural(lost));
}

void RecordingReport::print() const {
    for (const std::string& warning : recording_.warnings()) tell("leat: warning: {}", warning);
    for (const Reason& reason : kReasons) {
        const std::uint64_t count = recording_.discarded(reason.reason);
        const bool is_for_want_of_room = reason.reason == DiscardReason::kRingFull && recording_.output_error();
        if (count != 0)
            tell("leat: warning: {} event{} discarded: {}", count, plural(count),
                 is_for_want_of_room ? "the rings were full, as they could not be stored" : reason.remedy);
    }
    if (const std::uint64_t count = recorder_.not_attached(); count != 0)
        tell("leat: warning: {} event{} discarded: the program could not map the rings: see its limits (ulimit -v, -n)",
             count, plural(count));
    if (const std::uint64_t count = unreadable(); count != 0)
        tell("leat: warning: {} event{} discarded: a traced program wrote over them in its ring", count, plural(count));
    if (const std::uint64_t beyond = beyond_limit(); beyond != 0)
        tell("leat: warning: {}: {} event{} that came after that {} not stored",
             text_of_stop(recorder_.stopped_by(), program_.limits), beyond, plural(beyond),
             beyond == 1 ? "was" : "were");
    const std::uint64_t left = totals().left_in_rings;
    if (recording_.output_error())
        print_output_error();
    else if (left != 0)
        tell("leat: warning: {} event{} came after the end, from programs that still run", left, plural(left));
    tell("leat: {}", closing_line());
}

// A flight recorder's are those of its snapshots.
nlohmann::ordered_json RecordingReport::figures() const {
    const consumer::Totals totals = this->totals();
    if (recording_.is_for_snapshots())
        return {{"events", snapshots_.events()},
                {"bytes", snapshots_.bytes()},
                {"packets", snapshots_.packets()},
                {"discarded", discarded()}};
    return {{"events", totals.events},   {"bytes", totals.bytes},    {"packets", totals.packets},
            {"streams", totals.streams}, {"discarded", discarded()}, {"left_in_rings", totals.left_in_rings}};
}

nlohmann::ordered_json RecordingReport::discarded_by_reason() const {
    nlohmann::ordered_json by_reason;
    for (const Reason& reason : kReasons) by_reason[reason.key] = recording_.discarded(reason.reason);
    by_reason["not_attached"] = recorder_.not_attached();
    by_reason["unreadable"] = unreadable();
    if (program_.limits.are_any()) by_reason["beyond_limit"] = beyond_limit();
    return by_reason;
}

Result<void> RecordingReport::write_summary(const std::filesystem::path& file) const {
    nlohmann::ordered_json summary;
    summary["trace"] = where();
    summary.update(figures());
    summary["discarded_by_reason"] = discarded_by_reason();
    if (program_.limits.are_any()) summary["stopped_by"] = session::name_of(recorder_.stopped_by());
    summary["registrations"] = recorder_.counts().registrations;
    if (const output::RelayOutput* output = relay()) {
        const output::RelayOutput::Figures figures = output->figures();
        summary["relay"] = {{"parts", figures.parts},
                            {"packets_sent", figures.packets_sent},
                            {"packets_stored", figures.packets_stored},
                            {"packets_lost", figures.packets_lost},
                            {"events_lost", figures.events_lost}};
    }
    if (recording_.is_for_snapshots()) summary["snapshots"] = snapshots_.json();
    summary["warnings"] = recording_.warnings();
    summary["exit_status"] = end_.exit_status;
    std::ofstream out(file);
    // JSON is UTF-8; the names of files, sessions and programs are any bytes: what is not UTF-8 becomes U+FFFD.
    out << summary.dump(2, ' ', false, nlohmann::ordered_json::error_handler_t::replace) << '\n';
    if (!out.flush()) return io_error(fmt::format("cannot write the summary to {}", file.string()));
    return {};
}

}  // namespace leat::cli
