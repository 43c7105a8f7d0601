// A relay whose output lies in memory and is forgotten after each run, and what its connections do with what they have
// read.
#pragma once

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <optional>
#include <string>

#include "base/check.hpp"
#include "fuzz_input.hpp"
#include "relay/control_commands.hpp"
#include "relay/file_guard.hpp"
#include "relay/relay.hpp"

namespace leat::fuzz {

class ScratchRelay {
  public:
    ScratchRelay() : relay_(*relay::ConfinedDirectory::open_root(root().string()), &guard()) {}
    ~ScratchRelay() { std::filesystem::remove_all(root()); }
    ScratchRelay(const ScratchRelay&) = delete;
    ScratchRelay& operator=(const ScratchRelay&) = delete;

    relay::Relay& operator*() { return relay_; }
    relay::Relay* operator->() { return &relay_; }

    // Nothing may be outside of it.
    static const std::filesystem::path& root() {
        static const std::filesystem::path path = [] {
            std::string name = "/dev/shm/leat-fuzz-XXXXXX";
            LEAT_CHECK(::mkdtemp(name.data()) != nullptr);
            return std::filesystem::path(name) / "output";
        }();
        return path;
    }

  private:
    static relay::FileGuard& guard() {
        static const std::unique_ptr<relay::FileGuard> guard = *relay::FileGuard::start();
        return *guard;
    }

    relay::Relay relay_;
};

// One producer: its control connection, and its data connection.
class ScratchProducer {
  public:
    explicit ScratchProducer(relay::Relay& relay) : relay_(&relay) { producer_.relay = &relay; }
    ~ScratchProducer() {
        end_data();
        relay::end_producer(producer_);
    }
    ScratchProducer(const ScratchProducer&) = delete;
    ScratchProducer& operator=(const ScratchProducer&) = delete;

    [[nodiscard]] relay::Session* session() const { return producer_.session.get(); }

    // False: its connection would be closed.
    bool control(wire::RelayCommand command, UntrustedBytes payload) {
        if (payload.size() > relay::max_payload(command) && command != wire::RelayCommand::kSendMetadata) return false;
        if (command == wire::RelayCommand::kSendMetadata) return metadata(payload);
        const relay::CommandOutcome outcome = relay::run_command(producer_, command, payload);
        show();
        return !outcome.ends_connection;
    }

    bool data(const wire::DataHeader& header, UntrustedBytes bytes) {
        const auto session = relay_->session_of(header.stream_id);
        if (session == nullptr) return false;
        const auto stored = session->locked([&](relay::SessionState& state) -> Result<void> {
            const auto found = state.streams.find(header.stream_id);
            if (found == state.streams.end()) return not_found("no stream");
            return store(state, found->second.stream, header, bytes);
        });
        show();
        return stored.has_value();
    }

    // Time passes, as housekeeping sees it.
    void wait(std::chrono::seconds duration) {
        if (session() == nullptr) return;
        session()->locked(
            [&](relay::SessionState& state) { relay::commit_all(state, std::chrono::steady_clock::now() + duration); });
        show();
    }

    void end_data() {
        if (session() == nullptr) return;
        session()->locked([](relay::SessionState& state) {
            relay::end_data(state, std::chrono::steady_clock::now());
            relay::finish_streams(state, std::chrono::steady_clock::now());
        });
        session()->directory().finish_all();
    }

  private:
    static constexpr std::uint32_t kMaxPadding = 8192;  // to be quick

    bool metadata(UntrustedBytes payload) {
        if (session() == nullptr || payload.size() < wire::kSendMetadataSize) return false;
        const auto message = wire::parse<wire::SendMetadata>(payload.first(wire::kSendMetadataSize));
        const auto written = session()->locked([&](relay::SessionState& state) -> Result<std::size_t> {
            const auto found = state.metadata.find(message->stream_id);
            if (found == state.metadata.end()) return not_found("no stream");
            relay::MetadataStream& stream = *found->second->metadata;
            LEAT_TRY(stream.write(payload.subspan(wire::kSendMetadataSize)));
            LEAT_TRY(stream.write_zeros(std::min(message->padding_size, kMaxPadding)));
            stream.end_message();
            return 0;
        });
        show();
        return written.has_value();
    }

    static Result<void> store(relay::SessionState& state, const std::shared_ptr<relay::DataStream>& stream,
                              wire::DataHeader header, UntrustedBytes bytes) {
        header.padding_size = std::min(header.padding_size, kMaxPadding);
        LEAT_TRY(stream->begin_packet(header));
        const auto piece =
            bytes.first(static_cast<std::size_t>(std::min<std::uint64_t>(bytes.size(), header.data_size)));
        LEAT_TRY(stream->write(piece));
        if (stream->missing() != 0) return corrupt("cut in the middle of a packet");
        LEAT_TRY(stream->end_packet(std::chrono::steady_clock::now()));
        relay::note_commit(state, stream);
        if (stream->should_finish()) stream->finish();
        return {};
    }

    void show() {
        if (session() == nullptr) return;
        (void)session()->locked(relay::flush_all);
        session()->note_change();
    }

    relay::Relay* relay_;
    relay::Producer producer_{};
};

}  // namespace leat::fuzz
