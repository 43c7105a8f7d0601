// Writes a capture as the event loop writes everything else.
#pragma once

#include <array>
#include <leat/capture.hpp>
#include <utility>

#include "disk.hpp"

namespace io_tracer {

// For the thread of one shard. Its blocks go to the same disk as the requests, but not through their queue, and leave
// no events.
class CaptureWriter {
  public:
    static constexpr unsigned kWrites = 8;  // at a time

    explicit CaptureWriter(leat::capture capture) : capture_(std::move(capture)) {
        for (Write& write : writes_) write.writer = this;
    }

    // Writes the blocks that are full. Costs a few ns where there are none.
    void poll(Disk& disk) {
        for (Write& write : writes_) {
            if (write.is_busy) continue;
            const int count = capture_.poll(&write.buffer, 1);
            if (count < 0) is_over_ = true;
            if (count <= 0) return;
            write.begin(disk);
        }
    }

    void stop() { capture_.stop(); }
    // All is written.
    [[nodiscard]] bool is_over() const { return is_over_; }
    [[nodiscard]] leat::capture::result result() const { return capture_.get_result(); }

  private:
    struct Write final : Operation {
        void begin(Disk& disk) {
            direction = Direction::kWrite;
            fd = buffer.fd;
            offset = buffer.offset;
            part_count = static_cast<unsigned>(buffer.part_count);
            for (unsigned i = 0; i < part_count; ++i) parts[i] = buffer.parts[i];
            is_busy = true;
            disk.submit(*this);
        }
        void completed(ssize_t result) override {
            is_busy = false;
            writer->capture_.written(buffer, result);
        }

        CaptureWriter* writer = nullptr;
        leat::capture::buffer buffer{};
        bool is_busy = false;
    };
    static_assert(LEAT_CAPTURE_PARTS <= 2, "an operation has as many parts");

    leat::capture capture_;
    std::array<Write, kWrites> writes_;
    bool is_over_ = false;
};

}  // namespace io_tracer
