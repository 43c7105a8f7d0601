#pragma once

#include "relay/connection.hpp"
#include "relay/ingest/control_commands.hpp"

namespace leat::relay {

// A producer's control connection: requests in, replies out, in order.
class ControlConnection final : public Connection {
  public:
    // `thread`, of the server, is the one that serves the socket.
    ControlConnection(asio::ip::tcp::socket socket, Relay& relay, std::size_t thread);

  private:
    // A SEND_METADATA that has begun: its bytes go to the file as they come.
    struct Metadata {
        std::shared_ptr<Trace> trace;
        std::uint64_t missing;  // bytes to come
        std::uint64_t padding;  // bytes to add then
    };

    asio::awaitable<Result<void>> serve() override;
    void end() override;
    void note_disk_wait() override;

    // One message off the buffer; false: there is no whole one in it.
    asio::awaitable<Result<bool>> next_message();
    void note_session();
    void note_error(const std::string& message);
    Result<void> begin_metadata(std::uint64_t payload_size);
    asio::awaitable<Result<bool>> metadata();
    asio::awaitable<Result<void>> send_replies();

    Producer producer_;
    InputBuffer input_;
    std::size_t wanted_ = 0;  // bytes of the message that has begun
    std::optional<Metadata> metadata_{};
    wire::Bytes replies_{};
    std::vector<Unsynced> to_sync_{};
    std::uint64_t errors_ = 0;
    unsigned bulk_indexes_ = 0;  // of large packets, since the last pause
    bool has_ended_ = false;     // we close, behind the replies
};

}  // namespace leat::relay
