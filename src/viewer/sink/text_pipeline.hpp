#pragma once

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "base/result.hpp"
#include "viewer/merge/message.hpp"
#include "viewer/read/recent_packets.hpp"
#include "viewer/sink/line_renderer.hpp"
#include "viewer/sink/text_buffer.hpp"
#include "viewer/sink/text_options.hpp"

namespace leat::viewer {

// Makes lines of events on several threads, and writes it in their order. What merges gives events; when enough have
// gathered, they are a batch, which any thread renders:
//
//     merge --> batch being filled        thread that merges: renders, too, if all others are busy
//               batches: 7 6 5 4 3        rendered or being rendered, in any order
//                                `-----> written, in the order of their events
//
// One thread calls it. Packets, classes and plans must stay as they are until flush() has returned.
class TextPipeline {
  public:
    // `threads` besides the one that calls; 0: that one does it all.
    TextPipeline(const TextOptions& options, int output_fd, std::size_t threads);
    ~TextPipeline();
    TextPipeline(const TextPipeline&) = delete;
    TextPipeline& operator=(const TextPipeline&) = delete;

    // The next events.
    Result<void> add(std::span<const FoundEvent> events);
    // A line that is no event's, to be written behind the events that were added.
    Result<void> add_line(std::string_view line);
    // Writes everything that was added. Call this at the end, also after an error.
    Result<void> flush();

    // Whether the reader of the output is gone.
    [[nodiscard]] bool is_closed() const { return is_closed_; }

  private:
    // Events in their order, and their text.
    struct Batch {
        struct Event {
            ctf::EventPlace place;
            std::uint32_t packet;  // into `packets`
        };
        // A line that is no event's.
        struct Line {
            std::size_t next_event;  // the one behind it
            std::string text;
        };

        std::vector<PacketView> packets{};
        std::vector<Event> events{};
        std::vector<Line> lines{};
        // What is rendered: lines in turn, until there is enough text. Whoever writes that renders the rest.
        struct Next {
            std::size_t event = 0;
            std::size_t line = 0;
            std::optional<Moment> previous{};  // of the event before
        };
        Next next{};
        TextBuffer text{-1};
        std::optional<Error> error{};
        bool is_taken = false;  // by a thread that renders it
        bool is_rendered = false;

        [[nodiscard]] bool is_done() const { return next.event == events.size() && next.line == lines.size(); }
        void clear();
    };

    using Append = Result<void> (LineRenderer::*)(TextBuffer& buffer, const PacketView& packet,
                                                  const ctf::EventPlace& place, const std::optional<Moment>& previous);
    static void render(Batch& batch, LineRenderer& renderer);
    template <Append append>
    static void render_with(Batch& batch, LineRenderer& renderer);
    static void fetch_ahead(const Batch& batch);
    void start_threads();
    void work(const TextOptions& options);
    Batch* take_batch();
    std::uint32_t index_of(const PacketView& packet);
    Result<void> submit_if_full();
    Result<void> submit();
    Result<void> write_rendered(std::size_t most_left);
    Result<void> write(Batch& batch);

    TextOptions options_;
    int output_fd_;
    std::size_t thread_count_;
    LineRenderer renderer_;
    std::unique_ptr<Batch> filling_;
    RecentPackets<std::uint32_t> recent_;  // where one may be in the batch
    std::optional<Moment> previous_{};
    bool is_closed_ = false;
    bool has_failed_ = false;  // nothing more is written

    std::mutex lock_;  // of what follows
    std::condition_variable is_submitted_;
    std::condition_variable is_rendered_;
    std::deque<std::unique_ptr<Batch>> batches_;  // in the order of their events
    bool is_ending_ = false;
    std::vector<std::unique_ptr<Batch>> free_;
    std::vector<std::thread> threads_;  // begun when there is work for them
};

}  // namespace leat::viewer
