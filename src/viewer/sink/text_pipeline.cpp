#include "viewer/sink/text_pipeline.hpp"

#include <algorithm>
#include <system_error>
#include <utility>

namespace leat::viewer {
namespace {

// Enough that threads seldom meet, and few enough that the text of all batches is a few megabytes.
constexpr std::size_t kEvents = 4096;
constexpr std::size_t kBatchesPerThread = 2;
// Of a batch at once. Most have less: a line of 256 bytes is a long one.
constexpr std::size_t kEnoughText = 1U << 20U;

Moment moment_of(const ctf::EventPlace& place) { return {place.time_ns, place.cycles}; }

}  // namespace

void TextPipeline::Batch::clear() {
    packets.clear();
    runs.clear();
    places.clear();
    previous.reset();
    next_run = next_place = 0;
    if (text.capacity() > 2 * kEnoughText) text = TextBuffer(-1);
    text.clear();
    error.reset();
    is_taken = is_rendered = false;
}

TextPipeline::TextPipeline(const TextOptions& options, int output_fd, std::size_t threads)
    : options_(options),
      output_fd_(output_fd),
      thread_count_(threads),
      renderer_(options),
      filling_(std::make_unique<Batch>()) {}

TextPipeline::~TextPipeline() {
    {
        const std::lock_guard guard(lock_);
        is_ending_ = true;
    }
    is_submitted_.notify_all();
    for (std::thread& thread : threads_) thread.join();
}

Result<void> TextPipeline::add(const PacketView& packet, std::span<const ctf::EventPlace> places) {
    Batch& batch = *filling_;
    if (batch.packets.empty() || batch.packets.back().number != packet.number) batch.packets.push_back(packet);
    batch.places.insert(batch.places.end(), places.begin(), places.end());
    batch.runs.push_back({batch.packets.size() - 1, batch.places.size()});
    return submit_if_full();
}

Result<void> TextPipeline::add_line(std::string_view line) {
    Batch& batch = *filling_;
    batch.runs.push_back({.packet = 0, .end = batch.places.size(), .line = std::string(line)});
    return submit_if_full();
}

Result<void> TextPipeline::submit_if_full() {
    return std::max(filling_->places.size(), filling_->runs.size()) < kEvents ? Result<void>() : submit();
}

Result<void> TextPipeline::submit() {
    std::unique_ptr<Batch> batch = std::move(filling_);
    batch->previous = previous_;
    for (const Batch::Run& run : batch->runs)
        if (run.line.empty() && batch->packets[run.packet].plan->clock != nullptr)
            previous_ = moment_of(batch->places[run.end - 1]);
    start_threads();
    {
        const std::lock_guard guard(lock_);
        batches_.push_back(std::move(batch));
        if (!free_.empty()) {
            filling_ = std::move(free_.back());
            free_.pop_back();
        }
    }
    is_submitted_.notify_one();
    if (!filling_) filling_ = std::make_unique<Batch>();
    return write_rendered(kBatchesPerThread * thread_count_);
}

// Where no more threads can be had, those that are there do it.
void TextPipeline::start_threads() {
    try {
        while (threads_.size() < thread_count_) threads_.emplace_back([this] { work(options_); });
    } catch (const std::system_error&) {
        thread_count_ = threads_.size();
    }
}

Result<void> TextPipeline::flush() {
    if (!filling_->runs.empty()) LEAT_TRY(submit());
    return write_rendered(0);
}

// Writes what is rendered, and waits, or renders, until no more batches are left.
Result<void> TextPipeline::write_rendered(std::size_t most_left) {
    std::unique_lock guard(lock_);
    while (!batches_.empty()) {
        if (batches_.front()->is_rendered) {
            std::unique_ptr<Batch> batch = std::move(batches_.front());
            batches_.pop_front();
            guard.unlock();
            LEAT_TRY(write(*batch));
            batch->clear();
            guard.lock();
            free_.push_back(std::move(batch));
        } else if (batches_.size() <= most_left) {
            return {};
        } else if (Batch* const batch = take_batch()) {
            guard.unlock();
            render(*batch, renderer_);
            guard.lock();
            batch->is_rendered = true;
        } else {
            is_rendered_.wait(guard);
        }
    }
    return {};
}

Result<void> TextPipeline::write(Batch& batch) {
    while (!is_closed_ && !has_failed_) {
        batch.text.set_fd(output_fd_);
        auto written = batch.text.flush();
        is_closed_ = batch.text.is_closed();
        has_failed_ = !written || batch.error;
        LEAT_TRY(written);
        if (batch.error) return tl::unexpected(*std::exchange(batch.error, {}));
        if (batch.next_run == batch.runs.size()) return {};
        render(batch, renderer_);
    }
    return {};
}

// The first that nobody renders. With the lock held.
TextPipeline::Batch* TextPipeline::take_batch() {
    const auto free = std::ranges::find_if(batches_, [](const auto& batch) { return !batch->is_taken; });
    if (free == batches_.end()) return nullptr;
    (*free)->is_taken = true;
    return free->get();
}

void TextPipeline::work(const TextOptions& options) {
    LineRenderer renderer(options);
    std::unique_lock guard(lock_);
    while (true) {
        Batch* batch = nullptr;
        is_submitted_.wait(guard, [&] { return is_ending_ || (batch = take_batch()) != nullptr; });
        if (is_ending_) return;
        guard.unlock();
        render(*batch, renderer);
        guard.lock();
        batch->is_rendered = true;
        is_rendered_.notify_one();
    }
}

void TextPipeline::render(Batch& batch, LineRenderer& renderer) {
    for (; batch.next_run < batch.runs.size(); ++batch.next_run) {
        const Batch::Run& run = batch.runs[batch.next_run];
        if (!run.line.empty()) {
            batch.text.append(run.line);
            continue;
        }
        const PacketView& packet = batch.packets[run.packet];
        for (; batch.next_place < run.end; ++batch.next_place) {
            if (batch.text.text().size() >= kEnoughText) return;
            const ctf::EventPlace& place = batch.places[batch.next_place];
            auto appended = renderer.append(batch.text, packet, place, batch.previous);
            if (!appended) {
                batch.error = std::move(appended).error();
                return;
            }
            if (packet.plan->clock != nullptr) batch.previous = moment_of(place);
        }
    }
}

}  // namespace leat::viewer
