#include "relay/store/file_sequence.hpp"

#include <algorithm>

namespace leat::relay {

std::string FilePlace::file_name(std::uint64_t number) const {
    return naming_.limits().file_name(naming_.channel_name, number - first_);
}

Result<std::shared_ptr<const StreamFile::Open>> FilePlace::open(std::uint64_t number) const {
    const ConfinedDirectory trace = LEAT_TRY(open_directory());
    const std::string name = file_name(number);
    auto open = StreamFile::open_again(trace, name);
    // The name may stand for another file by now.
    if (number < oldest_) return not_found("{} has been rolled away", name);
    return open;
}

FileSequence::FileSequence(FileNaming naming, std::shared_ptr<SessionDirectory> directory,
                           std::shared_ptr<TraceChunk> chunk, std::uint64_t first, TakePlace take_place)
    : naming_(std::move(naming)),
      directory_(std::move(directory)),
      chunk_(std::move(chunk)),
      take_place_(std::move(take_place)),
      first_(first),
      next_(first) {}

Result<void> FileSequence::open_next() {
    SessionDirectory::TracePlace trace = LEAT_TRY(directory_->make_trace(*chunk_, naming_.trace_id, naming_.path));
    if (files_.empty() && next_ == first_) return open_first(trace);
    const std::string name = place_->file_name(next_);
    const bool is_again = naming_.limits().replaces(next_ - first_);
    if (is_again) {
        // The oldest packets go now: the newest must be safe by then, should we be killed. On a full disk they make
        // the room for that.
        auto flushed = flush();
        if (!flushed && !is_disk_full(flushed)) return flushed;
        place_->set_oldest(next_ - naming_.count_limit + 1);
    }
    const auto existing = is_again ? StreamFile::Existing::kReplaced : StreamFile::Existing::kRefused;
    files_.push_back(
        LEAT_TRY(StreamFile::create(trace.directory, name, next_, naming_.index_minor, existing, directory_->guard())));
    ++next_;
    return {};
}

// A stream of that name may have been there before, and have ended: its packets stay.
Result<void> FileSequence::open_first(const SessionDirectory::TracePlace& trace) {
    constexpr int kMaxTries = 1000;
    const std::string channel_name = naming_.channel_name;
    for (int number = 2;; ++number) {
        auto place = std::make_shared<FilePlace>(naming_, directory_, chunk_, trace.path, first_);
        auto file = StreamFile::create(trace.directory, place->file_name(next_), next_, naming_.index_minor,
                                       StreamFile::Existing::kRefused, directory_->guard());
        if (!file && file.error().kind == ErrorKind::kRefused && number < kMaxTries) {
            naming_.channel_name = fmt::format("{}-{}", channel_name, number);
            continue;
        }
        files_.push_back(LEAT_TRY(std::move(file)));
        readable_place_ = place_ = std::move(place);
        ++next_;
        return {};
    }
}

Result<StreamFile*> FileSequence::for_packet(std::uint64_t size) {
    if (files_.empty())
        LEAT_TRY(open_next());
    else if (files_.size() < kMostOpen && naming_.limits().is_full(files_.back().size(), size))
        LEAT_TRY(open_another());
    return &files_.back();
}

// If there is none, the stream goes on in its last.
Result<void> FileSequence::open_another() {
    std::shared_ptr<void> place;
    if (take_place_ && (place = take_place_()) == nullptr) return {};
    auto opened = open_next();
    // A stream of another name has files of that name (of c_1, and the second of c).
    if (!opened && opened.error().kind == ErrorKind::kRefused) return {};
    LEAT_TRY(std::move(opened));
    files_.back().keep_place(std::move(place));
    return {};
}

StreamFile* FileSequence::find(std::uint64_t number) {
    const auto found = std::ranges::find(files_, number, &StreamFile::number);
    return found == files_.end() ? nullptr : &*found;
}

Result<StreamFile*> FileSequence::for_entry(const std::optional<StoredData>& data) {
    StreamFile* const file = data ? find(data->file_number) : nullptr;
    if (file != nullptr) return file;
    if (StreamFile* const last = current()) return last;
    if (!files_.empty()) return &files_.front();
    return for_packet(0);
}

std::size_t FileSequence::unflushed() const {
    std::size_t sum = 0;
    for (const StreamFile& file : files_) sum += file.unflushed();
    return sum;
}

Result<void> FileSequence::flush() {
    for (StreamFile& file : files_) LEAT_TRY(file.flush());
    return {};
}

void FileSequence::close_unused(std::span<const StoredData> waiting) {
    if (!current_) return;
    std::uint64_t oldest = *current_;
    for (const StoredData& data : waiting) oldest = std::min(oldest, data.file_number);
    while (files_.size() > 1 && files_.front().number() < oldest) close_oldest();
}

void FileSequence::close_rolled() {
    while (files_.size() > 1) close_oldest();
}

void FileSequence::close_oldest() {
    files_.front().end();
    files_.pop_front();
    if (files_.size() == 1) files_.front().keep_place(nullptr);
}

// Data beyond the last entry has no index, and none will come: readers that go by packet headers alone must not meet
// it.
void FileSequence::finish() {
    for (StreamFile& file : files_) {
        file.truncate(file.safe_end());
        file.end();
    }
    files_.clear();
}

void FileSequence::discard() {
    if (place_ == nullptr) return;
    const std::vector<std::uint64_t> open = numbers();
    files_.clear();  // first: to remove them takes descriptors
    if (const auto trace = place_->open_directory())
        for (const std::uint64_t number : open) (void)StreamFile::remove(*trace, place_->file_name(number));
    next_ = first_;
}

std::vector<std::uint64_t> FileSequence::numbers() const {
    std::vector<std::uint64_t> numbers;
    std::ranges::transform(files_, std::back_inserter(numbers), &StreamFile::number);
    return numbers;
}

std::vector<Unsynced> FileSequence::duplicates() const {
    std::vector<Unsynced> files;
    for (const StreamFile& file : files_) {
        files.push_back({duplicate(file.open()->data.get())});
        if (file.open()->index.is_open()) files.push_back({duplicate(file.open()->index.get())});
    }
    return files;
}

}  // namespace leat::relay
