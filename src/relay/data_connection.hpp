#pragma once

#include "relay/connection.hpp"
#include "relay/relay.hpp"

namespace leat::relay {

// A producer's data connection: packets, one way. Which session it belongs to, its first packet says.
class DataConnection final : public Connection {
  public:
    DataConnection(asio::ip::tcp::socket socket, Relay& relay, std::size_t buffer_size);

  private:
    asio::awaitable<Result<void>> serve() override;
    void end() override;

    // What came of an attempt to write what is in the buffer.
    enum class Progress : std::uint8_t { kPacketDone, kNeedsMore, kDiskFull };
    Result<Progress> consume();
    // Shows what has been committed; false: the disk is full.
    Result<bool> flush();
    [[nodiscard]] std::span<std::byte> room();
    asio::awaitable<void> wait_for_disk();
    asio::awaitable<Result<void>> flush_patiently();
    Result<void> begin_packet();
    Result<void> find_session(std::uint64_t handle);
    Result<Progress> write_piece();

    Relay* relay_;
    InputBuffer input_;
    std::shared_ptr<Session> session_{};
    std::shared_ptr<DataStream> stream_{};  // of the packet that has begun
    std::uint64_t missing_ = 0;             // bytes of the packet that has begun
    std::uint64_t last_size_ = 0;           // bytes of the last packet that began
    bool is_change_ = false;
    bool was_full_ = false;  // the disk, and the log says so
};

}  // namespace leat::relay
