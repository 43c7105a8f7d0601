#include "viewer/sink/text_pipeline.hpp"

#include <algorithm>
#include <system_error>
#include <utility>

namespace leat::viewer {
namespace {

// Events of a batch: enough that threads seldom meet, and few enough that memory for all text has soon been touched.
// With many packets, which each batch lists anew, they are more.
constexpr std::size_t kFewestOfBatch = 2048;
constexpr std::size_t kMostOfBatch = 4096;
constexpr std::size_t kEventsForPacket = 64;
constexpr std::size_t kBatchesPerThread = 2;
// Of a batch at once. Most have less: a line of 256 bytes is a long one.
constexpr std::size_t kEnoughText = 1U << 20U;

Moment moment_of(const ctf::EventPlace& place) { return {place.time_ns, place.cycles}; }

}  // namespace

void TextPipeline::Batch::clear() {
    packets.clear();
    events.clear();
    lines.clear();
    next = {};
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

Result<void> TextPipeline::add(std::span<const FoundEvent> events) {
    const PacketView* indexed = nullptr;
    std::uint32_t index = 0;
    for (const auto& [packet, place] : events) {
        if (packet != indexed) index = index_of(*packet);
        indexed = packet;
        filling_->events.push_back({*place, index});
    }
    return submit_if_full();
}

// Events of many streams may alternate.
std::uint32_t TextPipeline::index_of(const PacketView& packet) {
    std::vector<PacketView>& packets = filling_->packets;
    std::uint32_t& index = recent_.of(packet.number);
    if (index < packets.size() && packets[index].number == packet.number) return index;
    index = static_cast<std::uint32_t>(packets.size());
    packets.push_back(packet);
    return index;
}

Result<void> TextPipeline::add_line(std::string_view line) {
    filling_->lines.push_back({filling_->events.size(), std::string(line)});
    return submit_if_full();
}

Result<void> TextPipeline::submit_if_full() {
    const std::size_t enough = std::clamp(kEventsForPacket * filling_->packets.size(), kFewestOfBatch, kMostOfBatch);
    return filling_->events.size() + filling_->lines.size() < enough ? Result<void>() : submit();
}

Result<void> TextPipeline::submit() {
    std::unique_ptr<Batch> batch = std::move(filling_);
    batch->next.previous = previous_;
    const auto has_clock = [&](const Batch::Event& event) {
        return batch->packets[event.packet].plan->clock != nullptr;
    };
    const auto last = std::ranges::find_if(batch->events.rbegin(), batch->events.rend(), has_clock);
    if (last != batch->events.rend()) previous_ = moment_of(last->place);
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
    if (!filling_->is_done()) LEAT_TRY(submit());
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
        if (batch.is_done()) return {};
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

// Whether a packet is whole is asked when all lines are made: where many packets alternate, it takes longer than a line
// to ask. If one is not, its bytes may have been zeros, and all is done again with care.
void TextPipeline::render(Batch& batch, LineRenderer& renderer) {
    const Batch::Next begin = batch.next;
    const std::size_t size = batch.text.text().size();
    render_with<&LineRenderer::append_unchecked>(batch, renderer);
    if (std::ranges::all_of(batch.packets, &PacketView::is_whole)) return;
    batch.next = begin;
    batch.text.cut(size);
    batch.error.reset();
    render_with<&LineRenderer::append>(batch, renderer);
}

template <TextPipeline::Append append>
void TextPipeline::render_with(Batch& batch, LineRenderer& renderer) {
    Batch::Next& next = batch.next;
    while (batch.text.text().size() < kEnoughText) {
        if (next.line < batch.lines.size() && batch.lines[next.line].next_event == next.event) {
            batch.text.append(batch.lines[next.line++].text);
            continue;
        }
        if (next.event == batch.events.size()) return;
        fetch_ahead(batch);
        const auto& [place, index] = batch.events[next.event];
        const PacketView& packet = batch.packets[index];
        auto appended = (renderer.*append)(batch.text, packet, place, next.previous);
        if (!appended) {
            batch.error = std::move(appended).error();
            return;
        }
        if (packet.plan->clock != nullptr) next.previous = moment_of(place);
        ++next.event;
    }
}

// Events of many packets are far from each other, and few are in the cache. Inlined: of a function that does nothing
// else, compilers leave out the calls.
[[gnu::always_inline]] inline void TextPipeline::fetch_ahead(const Batch& batch) {
    constexpr std::size_t kPackets = 16;  // events further on
    constexpr std::size_t kBytes = 8;
    if (batch.next.event + kPackets >= batch.events.size()) return;
    const Batch::Event* const event = &batch.events[batch.next.event];
    __builtin_prefetch(&batch.packets[event[kPackets].packet]);
    __builtin_prefetch(batch.packets[event[kBytes].packet].bytes.data() + event[kBytes].place.payload / 8);
}

}  // namespace leat::viewer
