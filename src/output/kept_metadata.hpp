#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <utility>

#include "consumer/output.hpp"

namespace leat::output {

// Of a trace of which only snapshots are stored: keeps its metadata for those. Packets are of channels that say when
// one is to be made; they are counted.
class KeptMetadata final : public consumer::Output {
  public:
    // `before_events`: called before a packet with events counts, and before its room in the ring is given back.
    explicit KeptMetadata(std::function<void()> before_events = {}) : before_events_(std::move(before_events)) {}

    Result<void> write_metadata(std::string_view unit) override {
        text_ += unit;
        return {};
    }
    Result<void> write_packet(const consumer::Packet& packet) override {
        if (packet.events != 0 && before_events_) before_events_();
        events_ += packet.events;
        return {};
    }
    // What is kept is nothing that was stored.
    Result<void> clear() override { return {}; }

    [[nodiscard]] const std::string& text() const { return text_; }
    [[nodiscard]] std::uint64_t events() const { return events_; }

  private:
    std::function<void()> before_events_;
    std::string text_{};
    std::uint64_t events_ = 0;
};

}  // namespace leat::output
