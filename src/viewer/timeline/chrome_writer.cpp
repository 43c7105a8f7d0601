#include "viewer/timeline/chrome_writer.hpp"

#include <utility>

#include "viewer/sink/field_json.hpp"

namespace leat::viewer {
namespace {

// CPUs, without a process, have a process of their own; and with one, numbers as if they were threads.
constexpr std::int64_t kOurs = 2'000'000'000;

// Where a track is for its readers, who know nothing but these two numbers.
struct Row {
    std::int64_t pid;
    std::int64_t tid;
};
Row row_of(const Track& track) {
    if (track.kind != Track::Kind::kCpu) return {track.pid, track.tid};
    const auto id = static_cast<std::int64_t>(track.id);
    return track.process == 0 ? Row{kOurs, id} : Row{track.pid, kOurs + id};
}

char letter_of(const Track& track, Phase phase) {
    if (track.kind == Track::Kind::kLane) return phase == Phase::kBegin ? 'b' : phase == Phase::kEnd ? 'e' : 'n';
    return phase == Phase::kBegin ? 'B' : phase == Phase::kEnd ? 'E' : 'i';
}

}  // namespace

void ChromeWriter::begin() { buffer_.append("{\"displayTimeUnit\":\"ns\",\"traceEvents\":[\n"); }

void ChromeWriter::begin_object() {
    if (has_objects_) buffer_.append(",\n");
    has_objects_ = true;
}

void ChromeWriter::track(const Track& track) {
    if (track.kind == Track::Kind::kProcess) name_track(track, "process_name", track.name);
    const bool is_cpu = track.kind == Track::Kind::kCpu;
    if (is_cpu && track.process == 0 && !std::exchange(has_cpus_, true)) name_track(track, "process_name", "CPUs");
    if (is_cpu || track.kind == Track::Kind::kThread) name_track(track, "thread_name", track.name);
}

void ChromeWriter::name_track(const Track& track, std::string_view what, std::string_view name) {
    const Row row = row_of(track);
    begin_object();
    buffer_.append(fmt::format(R"({{"ph":"M","name":"{}","pid":{},"tid":{},"args":{{"name":)", what, row.pid, row.tid));
    append_json_text(buffer_, name);
    buffer_.append("}}");
}

void ChromeWriter::event(const Track& track, Phase phase, std::int64_t time_ns, std::string_view title,
                         const ctf::EventRecord* event) {
    if (!first_ns_) first_ns_ = time_ns;
    const auto ns = static_cast<std::uint64_t>(time_ns) - static_cast<std::uint64_t>(*first_ns_);
    const Row row = row_of(track);
    begin_object();
    buffer_.append(fmt::format(R"({{"ph":"{}","ts":{}.{:03},"pid":{},"tid":{},)", letter_of(track, phase), ns / 1000,
                               ns % 1000, row.pid, row.tid));
    if (track.kind == Track::Kind::kLane) buffer_.append(fmt::format(R"("cat":"leat","id":"{:#x}",)", track.id));
    if (phase == Phase::kInstant) buffer_.append(R"("s":"t",)");
    buffer_.append("\"name\":");
    append_json_text(buffer_, title);
    if (event != nullptr && !event->fields.empty()) {
        buffer_.append(",\"args\":");
        append_json(buffer_, event->fields, JsonIntegers::kForDoubles);
    }
    buffer_.append('}');
}

void ChromeWriter::finish() {
    buffer_.append("\n],\"otherData\":{");
    if (first_ns_) buffer_.append(fmt::format("\"first_event_ns\":\"{}\"", *first_ns_));
    buffer_.append("}}\n");
}

}  // namespace leat::viewer
