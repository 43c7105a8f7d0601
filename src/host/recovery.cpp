#include "host/recovery.hpp"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <deque>
#include <memory>
#include <utility>

#include "base/file.hpp"
#include "base/journal.hpp"
#include "base/printable_text.hpp"
#include "base/shell_word.hpp"
#include "ctf/tsdl/tsdl_parser.hpp"
#include "host/destination.hpp"
#include "host/kept_trace.hpp"
#include "host/recording.hpp"
#include "host/surviving_records.hpp"
#include "output/stream_files.hpp"
#include "output/trace_directory.hpp"
#include "session/memory_directory.hpp"

namespace leat::host {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kLargestDescription = 1U << 20;
// Twice what the events of a user may take (session/description_budget.hpp): once for CPUs, once for threads.
constexpr std::uint64_t kLargestJournal = 512U << 20;
// Below the directory of a session: ust/uid/1000/64-bit. One who has more than so many files there has put them there.
constexpr int kDepth = 4;
constexpr std::size_t kMaxEntries = 1'000'000;

const char* const kOfSession = "ust";

Result<UniqueFd> open_file(int directory, const std::string& name) {
    UniqueFd fd(::openat(directory, name.c_str(), O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC));
    struct stat status {};
    if (!fd.is_open() || ::fstat(fd.get(), &status) != 0) return io_error(fmt::format("cannot open {}", name));
    if (!S_ISREG(status.st_mode)) return refused("{} is no regular file", name);
    return fd;
}

template <class T>
Result<T> of_file(const std::string& name, Result<T> result) {
    return result ? std::move(result) : Result<T>(wrap(name, std::move(result).error()));
}

// A directory of one session, or its parent.
Result<fs::path> session_directory(const fs::path& given) {
    std::error_code error;
    if (!fs::is_directory(given, error)) return not_found("{} is no directory", given.string());
    if (fs::is_directory(given / kOfSession, error)) return given;
    std::vector<fs::path> sessions;
    fs::path denied;
    for (fs::directory_iterator at(given, error); !error && at != end(at); at.increment(error)) {
        std::error_code of_entry;
        if (fs::is_directory(at->path() / kOfSession, of_entry)) sessions.push_back(at->path());
        if (of_entry == std::errc::permission_denied) denied = at->path();
    }
    if (error) return fail(ErrorKind::kIo, "cannot read directory {}: {}", given.string(), error.message());
    if (sessions.size() == 1) return sessions.front();
    if (sessions.empty() && !denied.empty())
        return refused("cannot read {}: Permission denied: it may be of a session of another user", denied.string());
    if (sessions.empty())
        return not_found("{} has no session that was recorded with --shm-path: those that ended well leave nothing",
                         given.string());
    std::ranges::sort(sessions);
    return refused("{} has {} sessions: choose one, such as {}", given.string(), sessions.size(),
                   sessions.front().string());
}

// Of traces, by path.
Result<std::vector<std::string>> find_traces(const fs::path& of_session) {
    std::vector<std::string> found;
    std::error_code error;
    std::size_t entries = 0;
    for (auto entry = fs::recursive_directory_iterator(of_session, error); !error && entry != fs::end(entry);
         entry.increment(error)) {
        if (++entries > kMaxEntries) return refused("{} has too many files", of_session.string());
        if (entry.depth() >= kDepth) entry.disable_recursion_pending();
        if (entry->path().filename() == session::MemoryDirectory::kDescription)
            found.push_back(entry->path().parent_path().lexically_relative(of_session).string());
    }
    if (error) return fail(ErrorKind::kIo, "cannot read {}: {}", of_session.string(), error.message());
    std::ranges::sort(found);
    return found;
}

Result<std::string> read_description(int fd) {
    return read_file(fmt::format("/proc/self/fd/{}", fd), kLargestDescription);
}

Result<std::string> read_journal(int directory, const std::string& name) {
    const Journal journal = LEAT_TRY(Journal::adopt(LEAT_TRY(open_file(directory, name))));
    if (journal.size() > kLargestJournal) return corrupt("it claims {} bytes", journal.size());
    return journal.read();
}

// The kernel may not have written all of it before the system went down: then there are zeros in it. Whole blocks
// count.
std::string without_what_is_lost(std::string text) {
    constexpr std::string_view kEndOfBlock = "\n};\n";
    const std::size_t zeros = text.find('\0');
    if (zeros == std::string::npos) return text;
    const std::size_t end = text.rfind(kEndOfBlock, zeros);
    text.resize(end == std::string::npos ? 0 : end + kEndOfBlock.size());
    return text;
}

Result<Journal> journal_of(const std::string& name, const std::string& text) {
    Journal journal = LEAT_TRY(Journal::create(name));
    LEAT_TRY(journal.append(text));
    return journal;
}

// But for the event that never happens.
bool begins_with(std::deque<ctf::EventClass> all, std::deque<ctf::EventClass> first) {
    const auto is_none = [](const ctf::EventClass& event) { return event.id == session::kNoEvent; };
    std::erase_if(all, is_none);
    std::erase_if(first, is_none);
    return first.size() <= all.size() && std::equal(first.begin(), first.end(), all.begin());
}

// The metadata are worth nothing if the system went down before all of them, or of the registry, was written: then they
// are made anew of what the registry knows.
bool agree(const std::string& registry, const std::string& metadata) {
    const auto enrolled = ctf::parse_tsdl(registry);
    const auto described = ctf::parse_tsdl(metadata);
    if (!enrolled || !described || enrolled->uuid != described->uuid ||
        enrolled->streams.size() != described->streams.size())
        return false;
    for (std::size_t i = 0; i < enrolled->streams.size(); ++i)
        if (!begins_with(enrolled->streams[i - i % 2].events, described->streams[i].events)) return false;
    return true;
}

// One trace, while it is recovered.
class Recovery {
  public:
    static Result<Recovery> begin(int directory, const std::string& path, const std::string& description) {
        using session::MemoryDirectory;
        Recovery recovery;
        DescribedTrace& known = recovery.known_;
        known = LEAT_TRY(of_file(MemoryDirectory::kDescription, parse_memory(description)));
        // Where it was found; what it says of itself might lie elsewhere.
        known.shape.path = path;
        struct stat status {};
        if (::fstat(directory, &status) != 0) return io_error("cannot look whose its directory is");
        if (status.st_uid != ::geteuid()) recovery.owner_ = status.st_uid;
        recovery.registry_ = without_what_is_lost(LEAT_TRY(of_file("registry", read_journal(directory, "registry"))));
        auto metadata = read_journal(directory, "metadata");
        if (metadata && agree(recovery.registry_, *metadata)) recovery.metadata_ = *std::move(metadata);
        LEAT_TRY(recovery.open_rings(directory));
        LEAT_TRY(of_file("registry", recovery.go_on()));
        return recovery;
    }

    Result<LeftSession::RecoveredTrace> store_in(const fs::path& output) {
        if (!known_.is_of_this_boot) wipe_what_is_torn(*trace_, *progress_);
        // Nobody has told of what this process calls a relay's session.
        auto opened = LEAT_TRY(open_output(*trace_, known_.parameters.session_name, {.directory = output}));
        LeftSession::RecoveredTrace recovered{.path = trace_->path(), .stored_in = known_.stored_in};
        if (trace_->is_for_snapshots()) {
            LEAT_TRY(take_snapshot(*opened, recovered));
        } else {
            LEAT_TRY(drain(std::move(opened), recovered));
            warn_of_unfinished_files(recovered);
        }
        return recovered;
    }

  private:
    Recovery() = default;

    Result<void> open_rings(int directory) {
        std::vector<std::uint32_t> counts;
        for (std::size_t i = 0; i < known_.channels.size(); ++i) {
            const session::Trace::Shape::OfChannel& shape = known_.shape.channels[i];
            const std::string name = ring::RingSet::file_name(known_.channels[i].name);
            UniqueFd fd = LEAT_TRY(open_file(directory, name));
            rings_.push_back(LEAT_TRY(of_file(name, ring::RingSet::adopt(std::move(fd), shape.geometry, shape.created,
                                                                         ring::RingSet::Memory::kCopy))));
            LEAT_TRY(of_file(name, hold_still(rings_.back())));
            counts.push_back(shape.geometry.ring_count());
        }
        const UniqueFd progress = LEAT_TRY(open_file(directory, "progress"));
        progress_ = std::make_unique<consumer::Progress>(
            LEAT_TRY(of_file("progress", consumer::Progress::copy_of(progress.get(), counts))));
        return {};
    }

    // Writers may go on. In rings that are drained, nothing changes below the head, as nobody gives room back.
    static Result<void> hold_still(const ring::RingSet& set) {
        const std::uint32_t used = set.geometry().cpu_rings + set.thread_rings_used();
        for (std::uint32_t ring = 0; ring < used; ++ring) {
            LEAT_TRY(set.map(ring));
            // One that does not is told of when it is read.
            if (!set.geometry().overwrites) (void)set.hold_still(ring);
        }
        return {};
    }

    Result<void> go_on() {
        auto clock = LEAT_TRY(ring::SharedClock::stopped(0));
        auto registry = LEAT_TRY(journal_of("registry", registry_));
        auto metadata = LEAT_TRY(journal_of("metadata", metadata_));
        session::Trace::Memory memory{.clock = std::move(clock),
                                      .registry = std::move(registry),
                                      .metadata = std::move(metadata),
                                      .rings = std::move(rings_)};
        trace_ = LEAT_TRY(session::Trace::adopt(known_.parameters, known_.channels, known_.shape, std::move(memory)));
        return {};
    }

    Result<void> take_snapshot(consumer::Output& output, LeftSession::RecoveredTrace& recovered) {
        const auto recording = LEAT_TRY(Recording::create_for_snapshots(*trace_, {.progress = progress_.get()}));
        const consumer::SnapshotTotals totals = LEAT_TRY(recording->take_snapshot(output, 0));
        output.close();
        if (totals.packets == 0) output.remove_if_unused();
        recovered.events = totals.events;
        recovered.bytes = totals.bytes;
        recovered.discarded = recording->discarded() + totals.unreadable;
        recovered.warnings = recording->warnings();
        for (const std::string& quarantined : totals.quarantined)
            recovered.warnings.push_back(quarantined + "; it is left out");
        return {};
    }

    // The last packet is also in the new trace. Readers that go by the index know no other; those that scan the file
    // would show it twice. Somebody else's memory may name files of a third user, who would not thank us for advice.
    void warn_of_unfinished_files(LeftSession::RecoveredTrace& recovered) const {
        if (known_.stored_in.empty()) return;
        for (const auto& [file, size, beyond] : output::find_unfinished_files(known_.stored_in, trace_->path(), owner_))
            recovered.warnings.push_back(fmt::format(
                "{} has {} bytes that its index does not know: babeltrace2 cannot read it together with the "
                "new trace, which has them, until you do: truncate -s {} {}",
                file.string(), beyond, size, shell_word(file.string())));
    }

    Result<void> drain(std::unique_ptr<consumer::Output> output, LeftSession::RecoveredTrace& recovered) {
        std::uint64_t told = 0;
        for (const auto& [stream, known] : progress_->begun()) told += known.discarded_told;
        const auto recording = LEAT_TRY(Recording::create(*trace_, std::move(output), {.progress = progress_.get()}));
        recording->begin_finish();
        recording->finish_now();
        if (recording->output_error()) return tl::unexpected(*recording->output_error());
        const consumer::Consumer& consumer = recording->consumer();
        if (consumer.totals().packets == 0) recording->abandon();
        recovered.events = consumer.totals().events;
        recovered.bytes = consumer.totals().bytes;
        recovered.discarded = consumer.discarded() - std::min(told, consumer.discarded());
        recovered.warnings = recording->warnings();
        return {};
    }

    DescribedTrace known_;
    std::optional<uid_t> owner_{};  // of its memory; none: we
    std::string registry_;
    std::string metadata_;
    std::vector<ring::RingSet> rings_;
    std::unique_ptr<consumer::Progress> progress_;
    std::unique_ptr<session::Trace> trace_;
};

// The name of a session that can be that of a directory.
bool is_name(const std::string& name) {
    return !name.empty() && name.size() < 200 && name != "." && name != ".." && name == printable(name) &&
           name.find('/') == std::string::npos;
}

}  // namespace

Result<LeftSession> LeftSession::find(const fs::path& directory) {
    LeftSession session;
    session.directory_ = LEAT_TRY(session_directory(directory));
    for (const std::string& path : LEAT_TRY(find_traces(session.directory_))) {
        const fs::path of_trace = session.directory_ / path;
        Left left{.path = path,
                  .directory = UniqueFd(::open(of_trace.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC))};
        if (!left.directory.is_open()) return io_error(fmt::format("cannot open {}", of_trace.string()));
        left.description = LEAT_TRY(
            of_file(of_trace.string(), open_file(left.directory.get(), session::MemoryDirectory::kDescription)));
        if (::flock(left.description.get(), LOCK_SH | LOCK_NB) != 0)
            return refused(
                "{} is in use: its session daemon, that one's keeper, or leat record has it still: end the session "
                "with leat destroy, or let a session daemon go on with it (leat list)",
                of_trace.string());
        session.traces_.push_back(std::move(left));
    }
    if (session.traces_.empty())
        return not_found("{} has no trace: no program had rings yet", session.directory_.string());
    const auto text = read_description(session.traces_.front().description.get());
    const auto known = text ? parse_memory(*text) : tl::unexpected(text.error());
    session.name_ = known && is_name(known->parameters.session_name)
                        ? known->parameters.session_name
                        : fs::absolute(session.directory_ / "x").lexically_normal().parent_path().filename().string();
    return session;
}

Result<LeftSession::Recovered> LeftSession::store_in(const fs::path& output) const {
    std::error_code ignored;
    const bool is_new = !fs::exists(output, ignored);
    LEAT_TRY(output::TraceDirectory::prepare(output));
    Recovered recovered;
    for (const Left& left : traces_) {
        const auto text = read_description(left.description.get());
        auto recovery = text ? Recovery::begin(left.directory.get(), left.path, *text) : tl::unexpected(text.error());
        auto stored = recovery ? recovery->store_in(output) : tl::unexpected(recovery.error());
        if (stored)
            recovered.traces.push_back(*std::move(stored));
        else
            recovered.errors.push_back((directory_ / left.path).string() + ": " + stored.error().message);
    }
    // If there is nothing in it.
    if (is_new) (void)::rmdir(output.c_str());
    return recovered;
}

}  // namespace leat::host
