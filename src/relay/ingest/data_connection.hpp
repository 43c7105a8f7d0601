#pragma once

#include "relay/connection.hpp"
#include "relay/ingest/splice_pipe.hpp"
#include "relay/relay.hpp"

namespace leat::relay {

// A producer's data connection: packets, one way. Which session it belongs to, its first packet says. Headers and small
// packets come through a buffer, several at once; the bytes of large packets go through a pipe, and never come to us.
//
//     socket  --recv-->  input_  --pwrite-->  file          headers, small packets
//             --splice-->  pipe_  --splice-->  file         from the second piece of a large packet on
//
// A packet that is large shows only by its header, so its first bytes are in the buffer. What is in the buffer is
// always older than what is in the pipe. Between two packets the pipe may hold the next header: it is read from there.
class DataConnection final : public Connection {
  public:
    DataConnection(asio::ip::tcp::socket socket, Relay& relay);

  private:
    asio::awaitable<Result<void>> serve() override;
    void end() override;
    void note_disk_wait() override;

    // What came of an attempt to write what is in the buffer.
    // kMustWait: for the other connection, which is too far behind.
    enum class Progress : std::uint8_t { kPacketDone, kNeedsMore, kDiskFull, kMustWait };
    Result<Progress> consume();
    // Whatever has come, as Connection::try_receive().
    std::optional<std::size_t> take();
    // Waits for the disk if it must, and tells viewers.
    asio::awaitable<Result<void>> flush_patiently();
    Result<void> take_header_from_pipe();
    // False: the control connection is too far behind.
    Result<bool> begin_packet();
    // The bytes of one that its stream has dropped.
    Result<Progress> pass_over();
    Result<void> find_session(std::uint64_t handle);
    Result<Progress> write_piece();
    Result<std::size_t> write_what_fits(const DataStream::Target& target, std::uint64_t count);

    Relay* relay_;
    InputBuffer input_;  // its bytes are in front of those in the pipe
    SplicePipe pipe_{};
    bool is_spliced_ = false;  // what comes next
    bool can_splice_ = true;   // the file system has not said otherwise
    std::shared_ptr<StoredSession> session_{};
    std::shared_ptr<SessionStream> stream_{};  // of the packet that has begun; null: there is none, or it was dropped
    std::uint64_t left_ = 0;                   // of its bytes
    Changes changes_{};
};

}  // namespace leat::relay
