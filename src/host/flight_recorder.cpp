#include "host/flight_recorder.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <string_view>
#include <thread>

#include "base/local_time.hpp"
#include "output/trace_directory.hpp"

namespace leat::host {
namespace {

namespace fs = std::filesystem;

constexpr const char* kDateFormat = "%Y%m%d-%H%M%S";

void add(const consumer::SnapshotTotals& part, consumer::SnapshotTotals& sum) {
    sum.events += part.events;
    sum.bytes += part.bytes;
    sum.packets += part.packets;
    sum.unreadable += part.unreadable;
    sum.begin = std::min(sum.begin, part.begin);
    sum.end = std::max(sum.end, part.end);
    sum.quarantined.insert(sum.quarantined.end(), part.quarantined.begin(), part.quarantined.end());
}

// 0 stays 0: no limit.
std::uint64_t part_of(std::uint64_t size, std::size_t count) {
    return size == 0 ? 0 : std::max<std::uint64_t>(size / count, 1);
}

// Where a snapshot is written, so that whoever finds it by its name has it whole.
fs::path hidden(const fs::path& directory) {
    return directory.parent_path() / fmt::format(".{}.part", directory.filename().string());
}

// What hidden() makes of the name of a snapshot that directory_for() has chosen.
bool is_hidden_snapshot(std::string_view name) {
    constexpr std::string_view kEnd = ".part";
    if (!name.starts_with('.') || !name.ends_with(kEnd)) return false;
    name = name.substr(1, name.size() - 1 - kEnd.size());
    const auto take_number = [&name](std::size_t digits) {
        const std::size_t dash = name.rfind('-');
        if (dash == std::string_view::npos) return false;
        const std::string_view number = name.substr(dash + 1);
        const auto is_digit = [](char c) { return c >= '0' && c <= '9'; };
        name = name.substr(0, dash);
        return std::ranges::all_of(number, is_digit) && (digits == 0 ? !number.empty() : number.size() == digits);
    };
    return take_number(0) && take_number(6) && take_number(8) && !name.empty();
}

// Whether it may succeed if it is tried again. A snapshot that is too small for a packet stays so.
bool may_pass(const Error& error) { return error.kind == ErrorKind::kDiskFull || error.kind == ErrorKind::kIo; }

// What was stored until the disk was full, or so, can be read. Of one that is tried again, the first such part is
// nearest to what was wanted, and a disk that is full should not get one more with each try.
tl::unexpected<Error> leave_part(const fs::path& place, const fs::path& directory, Error error, fs::path* part) {
    std::error_code failed;
    fs::path there = directory;
    if (part != nullptr && !part->empty() && fs::exists(*part, failed)) {
        fs::remove_all(place, failed);
        there = *part;
    } else {
        fs::rename(place, directory, failed);
        if (failed || !fs::exists(directory, failed)) return tl::unexpected(std::move(error));
        if (part != nullptr) *part = directory;
    }
    return fail(error.kind, "{}: what could be stored is in {}", error.message, there.string());
}

// A second at most, also if somebody sets the clock back.
void wait_for(std::time_t time) {
    constexpr std::chrono::milliseconds kStep{10};
    for (std::chrono::milliseconds waited{0}; std::time(nullptr) < time && waited <= std::chrono::seconds(1);
         waited += kStep)
        std::this_thread::sleep_for(kStep);
}

}  // namespace

// Nobody else writes there: the directory was new when the session was created.
void FlightRecorder::go_on_after_another() {
    earliest_ = std::time(nullptr) + 1;
    if (!destination_.has_directory()) return;
    std::vector<fs::path> unfinished;
    std::error_code error;
    for (auto entry = fs::directory_iterator(destination_.directory, error);
         !error && entry != fs::directory_iterator(); entry.increment(error))
        if (is_hidden_snapshot(entry->path().filename().string())) unfinished.push_back(entry->path());
    for (const fs::path& path : unfinished) fs::remove_all(path, error);
}

// Another process may have made snapshots there before us, or was killed while it did.
fs::path FlightRecorder::directory_for(const SnapshotOrder& order) {
    if (!order.directory.empty()) return order.directory;
    const std::string name = fmt::format("{}-{}", order.name, local_time_text(kDateFormat));
    std::error_code error;
    for (;;) {
        fs::path directory = destination_.directory / fmt::format("{}-{}", name, next_id_++);
        if (!fs::exists(directory, error) && !fs::exists(hidden(directory), error)) return directory;
    }
}

Result<StoredSnapshot> FlightRecorder::take(std::span<Recording* const> recordings, const SnapshotOrder& order) {
    // Those who have asked for one get one where they look for it, with all that there is.
    if (!order.directory.empty() || order.relay || order.is_limited) return store(recordings, order);
    const bool was_wanted = is_wanted_;
    forget_wish();
    last_ = Clock::now();
    // Rings may be there that could not be opened yet.
    if (was_wanted && recordings.empty()) note_failure();
    auto stored = store(recordings, order, was_wanted ? &part_ : nullptr);
    is_wanted_ = was_wanted && !stored && is_failing();
    if (!is_wanted_) part_.clear();
    return stored;
}

Result<StoredSnapshot> FlightRecorder::take_last(Recording& recording, const SnapshotOrder& order) {
    auto stored = store(std::array{&recording}, order);
    is_met_in_part_ |= stored.has_value();
    return stored;
}

Result<StoredSnapshot> FlightRecorder::store(std::span<Recording* const> recordings, const SnapshotOrder& order,
                                             fs::path* part) {
    if (recordings.empty())
        return refused("no program has had an event of this session yet: there is nothing to store");
    const auto& relay = order.relay || !order.directory.empty() ? order.relay : destination_.relay;
    if (!relay) return store_in_directory(recordings, order, part);
    auto stored = store_at_relay(recordings, order, *relay);
    // A relay may remember what it has of one that failed: the next one has nothing to do with that.
    if (!stored) sender_ = output::random_sender();
    return stored;
}

Result<StoredSnapshot> FlightRecorder::store_in_directory(std::span<Recording* const> recordings,
                                                          const SnapshotOrder& order, fs::path* part) {
    StoredSnapshot stored{.directory = directory_for(order), .totals = {}};
    const bool has_own_name = order.directory.empty();
    const fs::path place = has_own_name ? hidden(stored.directory) : stored.directory;
    auto written = write(recordings, order, place, stored.totals);
    if (!has_own_name) return written.map([&stored] { return stored; });
    if (std::error_code error; written) {
        fs::rename(place, stored.directory, error);
        if (error) written = fail(ErrorKind::kIo, "cannot rename {}: {}", place.string(), error.message());
    }
    if (written || !may_pass(written.error()))
        failures_ = 0;
    else
        note_failure();
    if (!written) return leave_part(place, stored.directory, std::move(written).error(), part);
    return stored;
}

Result<StoredSnapshot> FlightRecorder::store_at_relay(std::span<Recording* const> recordings,
                                                      const SnapshotOrder& order, const net::RelayAddress& relay) {
    if (order.name.starts_with('.')) return refused("a relay takes no snapshot whose name begins with a dot");
    wait_for(earliest_);
    const output::SnapshotDescription description{
        .name = fmt::format("{}-{}-{}", order.name, local_time_text(kDateFormat), next_id_),
        .sender = sender_,
        .number = next_id_};
    ++next_id_;
    StoredSnapshot stored{.directory = {}, .relay = to_text(relay), .totals = {}};
    // All packets of all traces come first: then the metadata, which make traces of them.
    const Sent sent = LEAT_TRY(send(recordings, order, relay, description, stored.totals));
    for (const auto& output : sent.outputs) {
        auto path = output->complete();
        if (!path) return relay_failed(relay, std::move(path).error());
        stored.directory = *std::move(path);
    }
    if (relay == destination_.relay) failures_ = 0;
    if (sent.failure && !sent.outputs.empty())
        return fail(sent.failure->kind, "{}: what could be stored is in {} at {}", sent.failure->message,
                    stored.directory.string(), stored.relay);
    if (sent.failure) return tl::unexpected(*sent.failure);
    return stored;
}

// A trace that cannot be stored, while the relay is well, keeps the others from nothing. For the relay, the snapshot is
// over when its last stream is: so traces without packets, which have no stream until they are complete, are completed
// before the others; of such alone, one is enough.
Result<FlightRecorder::Sent> FlightRecorder::send(std::span<Recording* const> recordings, const SnapshotOrder& order,
                                                  const net::RelayAddress& relay,
                                                  const output::SnapshotDescription& description,
                                                  consumer::SnapshotTotals& totals) {
    const auto start = static_cast<std::uint64_t>(start_);
    Sent sent;
    for (Recording* const recording : recordings) {
        auto output = open_snapshot(recording->trace(), session_, start, relay, description);
        if (!output) return relay_failed(relay, std::move(output).error());
        auto of_trace = recording->take_snapshot(**output, part_of(order.max_size, recordings.size()));
        if (!of_trace && !(*output)->check_delivered()) return relay_failed(relay, std::move(of_trace).error());
        if (of_trace) {
            add(*of_trace, totals);
            auto& outputs = sent.outputs;
            outputs.insert(of_trace->packets == 0 ? outputs.begin() : outputs.end(), *std::move(output));
        } else if (!sent.failure) {
            sent.failure = std::move(of_trace).error();
        }
    }
    if (totals.packets == 0 && !sent.outputs.empty()) sent.outputs.resize(1);
    return sent;
}

// The pause begins with the end of the try, which may have taken long.
void FlightRecorder::note_failure() {
    ++failures_;
    last_ = Clock::now();
}

// And not the rings.
tl::unexpected<Error> FlightRecorder::relay_failed(const net::RelayAddress& relay, Error error) {
    if (relay == destination_.relay) note_failure();
    return tl::unexpected(std::move(error));
}

// A trace that cannot be stored keeps the others from nothing.
Result<void> FlightRecorder::write(std::span<Recording* const> recordings, const SnapshotOrder& order,
                                   const fs::path& place, consumer::SnapshotTotals& totals) const {
    Destination destination = destination_;
    destination.directory = place;
    destination.relay.reset();
    LEAT_TRY(output::TraceDirectory::prepare(place));
    Result<void> outcome;
    for (Recording* const recording : recordings) {
        const auto of_trace = write_trace(*recording, destination, part_of(order.max_size, recordings.size()));
        if (of_trace)
            add(*of_trace, totals);
        else if (outcome)
            outcome = tl::unexpected(of_trace.error());
    }
    return outcome;
}

Result<consumer::SnapshotTotals> FlightRecorder::write_trace(Recording& recording, const Destination& destination,
                                                             std::uint64_t max_size) const {
    const auto output = LEAT_TRY(open_output(recording.trace(), session_, destination));
    auto totals = recording.take_snapshot(*output, max_size);
    output->close();
    if (!totals) output->remove_if_unused();
    return totals;
}

// If it is empty.
void FlightRecorder::remove_if_unused() const { (void)::rmdir(destination_.directory.c_str()); }

void FlightRecorder::notice(std::span<Recording* const> recordings) {
    for (Recording* const recording : recordings)
        if (recording->notice_snapshot_wanted()) ask();
}

FlightRecorder::Clock::duration FlightRecorder::pause() const {
    constexpr unsigned kMostDoublings = 6;
    return std::min(kPause * (1U << std::min(failures_, kMostDoublings)), kLongestPause);
}

FlightRecorder::Clock::duration FlightRecorder::until_due() const {
    constexpr Clock::duration kNever = std::chrono::hours(1);
    if (!is_wanted_ || is_passed_on_) return kNever;
    return last_ ? std::max(*last_ + pause() - Clock::now(), Clock::duration(0)) : Clock::duration(0);
}

}  // namespace leat::host
