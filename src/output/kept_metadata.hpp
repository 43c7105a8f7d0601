#pragma once

#include <string>
#include <string_view>

#include "consumer/output.hpp"

namespace leat::output {

// Of a trace of which only snapshots are stored: keeps its metadata for those. Packets are of channels that say when
// one is to be made; they are counted.
class KeptMetadata final : public consumer::Output {
  public:
    Result<void> write_metadata(std::string_view unit) override {
        text_ += unit;
        return {};
    }
    Result<void> write_packet(const consumer::Packet& packet) override {
        events_ += packet.events;
        return {};
    }
    // What is kept is nothing that was stored.
    Result<void> clear() override { return {}; }

    [[nodiscard]] const std::string& text() const { return text_; }
    [[nodiscard]] std::uint64_t events() const { return events_; }

  private:
    std::string text_{};
    std::uint64_t events_ = 0;
};

}  // namespace leat::output
