#include "library/trace_reader.hpp"

#include <algorithm>
#include <utility>

namespace leat::library {

Result<TraceReader> TraceReader::open(const std::vector<std::filesystem::path>& paths, Wanted wanted) {
    if (wanted.begin_ns > wanted.end_ns) return refused("the end of the range of times lies before its begin");
    std::vector<std::filesystem::path> denied;
    TraceReader reader(LEAT_TRY(viewer::open_traces(paths, &denied)), std::move(wanted));
    reader.denied_ = std::move(denied);
    LEAT_TRY(reader.seek(reader.wanted_.begin_ns));
    return reader;
}

Result<void> TraceReader::seek(std::int64_t time_ns) {
    const viewer::Selection selection{
        .expression = wanted_.expression,
        .range = viewer::TimeRange::of(std::max(time_ns, wanted_.begin_ns), wanted_.end_ns)};
    viewer::SelectedEvents events = LEAT_TRY(viewer::SelectedEvents::make(traces_, selection));
    event_ = nullptr;
    record_ = nullptr;
    following_ = {};
    losses_ = {};
    events_.reset();
    events.check(check_);
    // Behind the end there is nothing.
    if (time_ns <= wanted_.end_ns) events_.emplace(std::move(events));
    return {};
}

void TraceReader::check(std::function<Result<void>()> check) {
    check_ = std::move(check);
    if (events_) events_->check(check_);
}

Result<bool> TraceReader::next() {
    event_ = nullptr;
    record_ = nullptr;
    while (following_.empty()) {
        if (!events_) return false;
        auto is_there = events_->next();
        if (!is_there || !*is_there) {
            events_.reset();
            LEAT_TRY(std::move(is_there));
            LEAT_TRY(viewer::first_damage(traces_));
            LEAT_TRY(viewer::first_denied(denied_));
            return false;
        }
        following_ = events_->events();
        if (following_.empty()) losses_.add(events_->loss());
    }
    event_ = following_.data();
    following_ = following_.subspan(1);
    return true;
}

Result<const ctf::EventRecord*> TraceReader::record() {
    if (record_ == nullptr) record_ = LEAT_TRY(decoder_.decode(packet(), place()));
    return record_;
}

}  // namespace leat::library
