// A relay whose output is in memory and is deleted after each run, and the code that its connections run once they have
// read something.
#pragma once

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <optional>
#include <string>

#include "base/check.hpp"
#include "fuzz_input.hpp"
#include "relay/ingest/control_commands.hpp"
#include "relay/relay.hpp"
#include "relay/store/file_guard.hpp"

namespace leat::fuzz {

class ScratchRelay {
  public:
    // Handles of streams are 1, 2, ... here, so that an input means the same in each run.
    ScratchRelay()
        : relay_(*relay::ConfinedDirectory::open_root(root().string()), {.guard = guard()},
                 std::make_shared<relay::StreamHandles>([this] { return next_handle_++; })) {}
    ~ScratchRelay() { std::filesystem::remove_all(root()); }
    ScratchRelay(const ScratchRelay&) = delete;
    ScratchRelay& operator=(const ScratchRelay&) = delete;

    relay::Relay& operator*() { return relay_; }
    relay::Relay* operator->() { return &relay_; }
    [[nodiscard]] std::uint64_t next_handle() const { return next_handle_; }

    // Nothing may be written outside this directory.
    static const std::filesystem::path& root() {
        static const std::filesystem::path path = [] {
            std::string name = "/dev/shm/leat-fuzz-XXXXXX";
            LEAT_CHECK(::mkdtemp(name.data()) != nullptr);
            return std::filesystem::path(name) / "output";
        }();
        return path;
    }

  private:
    static const std::shared_ptr<relay::FileGuard>& guard() {
        static const std::shared_ptr<relay::FileGuard> guard = *relay::FileGuard::start();
        return guard;
    }

    std::uint64_t next_handle_ = 1;
    relay::Relay relay_;
};

// One producer with its control connection and its data connection.
class ScratchProducer {
  public:
    explicit ScratchProducer(relay::Relay& relay) : relay_(&relay) { producer_.relay = &relay; }
    ~ScratchProducer() {
        end_data();
        relay::end_producer(producer_);
    }
    ScratchProducer(const ScratchProducer&) = delete;
    ScratchProducer& operator=(const ScratchProducer&) = delete;

    [[nodiscard]] relay::StoredSession* session() const { return producer_.session.get(); }

    // Returns false if the connection would be closed.
    bool control(wire::RelayCommand command, UntrustedBytes payload) {
        if (payload.size() > relay::max_payload(command) && command != wire::RelayCommand::kSendMetadata) return false;
        if (command == wire::RelayCommand::kSendMetadata) return metadata(payload);
        const relay::CommandOutcome outcome = relay::run_command(producer_, command, payload);
        show();
        return !outcome.ends_connection;
    }

    // Begins a packet with its head. Its bytes follow in pieces.
    bool begin_data(wire::DataHeader header) {
        const auto session = relay_->handles().session_of(header.stream_id);
        if (session == nullptr || incoming_ != nullptr) return false;
        incoming_ = session->locked([&](relay::SessionState& state) -> std::shared_ptr<relay::SessionStream> {
            const auto found = state.by_handle.find(header.stream_id);
            return found == state.by_handle.end() ? nullptr : found->second;
        });
        if (incoming_ == nullptr) return false;
        header.padding_size = std::min(header.padding_size, kMaxPadding);
        const auto begun = incoming_->stream->begin_packet(header);
        const bool has_begun = begun && *begun == relay::DataStream::Begun::kYes;
        if (!has_begun) incoming_.reset();
        return has_begun;
    }
    bool more_data(UntrustedBytes bytes) {
        if (incoming_ == nullptr) return false;
        const auto begun = incoming_->stream->begin_write();
        const auto target = begun ? *begun : std::nullopt;
        if (!target) {
            incoming_.reset();
            return false;
        }
        const auto piece =
            bytes.first(static_cast<std::size_t>(std::min<std::uint64_t>(bytes.size(), target->missing)));
        const auto written = relay::write_what_fits(target->file->data.get(), target->offset, piece);
        producer_.changes.add(incoming_);
        const auto is_complete = incoming_->stream->end_write(written.value_or(0), now());
        if (!is_complete || *is_complete) incoming_.reset();
        show();
        return is_complete.has_value();
    }
    bool data(const wire::DataHeader& header, UntrustedBytes bytes) {
        return begin_data(header) && more_data(bytes) && incoming_ == nullptr;
    }
    [[nodiscard]] bool is_in_packet() const { return incoming_ != nullptr; }

    // Lets time pass, as the relay's housekeeping sees it.
    void wait(std::chrono::seconds duration) {
        if (session() == nullptr) return;
        for (const auto& stream : session()->open_streams()) {
            (void)stream->stream->flush(now() + duration);
            producer_.changes.add(stream);
        }
        show();
    }

    void end_data() {
        if (session() == nullptr) return;
        incoming_.reset();
        session()->end_data(now());
        session()->finish_streams(now());
    }

  private:
    static constexpr std::uint32_t kMaxPadding = 8192;  // limited, to be quick

    static relay::Time now() { return std::chrono::steady_clock::now(); }

    bool metadata(UntrustedBytes payload) {
        if (session() == nullptr || payload.size() < wire::kSizeOf<wire::SendMetadata>) return false;
        const auto message = wire::parse<wire::SendMetadata>(payload.first(wire::kSizeOf<wire::SendMetadata>));
        const auto trace = session()->locked([&](relay::SessionState& state) -> std::shared_ptr<relay::Trace> {
            const auto found = state.metadata.find(message->stream_id);
            return found == state.metadata.end() ? nullptr : found->second;
        });
        if (trace == nullptr) return false;
        const bool is_written =
            trace->metadata->write(payload.subspan(wire::kSizeOf<wire::SendMetadata>)).has_value() &&
            trace->metadata->write_zeros(std::min(message->padding_size, kMaxPadding)).has_value();
        trace->metadata->end_message();
        session()->show(trace);
        show();
        return is_written;
    }

    void show() {
        if (session() == nullptr) return;
        (void)producer_.changes.flush(*session(), now());
        session()->note_change();
    }

    relay::Relay* relay_;
    relay::Producer producer_{};
    std::shared_ptr<relay::SessionStream> incoming_{};  // the stream whose packet has begun
};

}  // namespace leat::fuzz
