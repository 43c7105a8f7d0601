#include "output/tcp_link.hpp"

#include <array>

#include "base/check.hpp"
#include "wire/ingest/relay_messages.hpp"

namespace leat::output {

void TcpLink::begin(const consumer::Packet& packet, std::uint64_t stream_handle) {
    LEAT_CHECK(is_idle());
    wire::append(head_, wire::DataHeader{.stream_id = stream_handle,
                                         .net_seq_num = packet.header.packet_seq_num,
                                         .data_size = static_cast<std::uint32_t>(packet.header.packet_size / 8)});
    consumer::append_head(head_, packet);
    records_ = packet.other_records();
    sent_ = 0;
}

Result<void> TcpLink::flush(Clock::time_point /*now*/) {
    while (!is_idle()) {
        const std::size_t of_head = std::min(sent_, head_.size());
        const UntrustedBytes records = records_.subspan(sent_ - of_head);
        std::array parts{iovec{head_.data() + of_head, head_.size() - of_head},
                         iovec{const_cast<std::byte*>(records.data()), records.size()}};  // NOLINT(*-const-cast)
        const std::size_t count = LEAT_TRY(socket_.send_some(parts));
        if (count == 0) return {};
        sent_ += count;
        if (sent_ == head_.size() + records_.size()) head_.clear();
    }
    return {};
}

Result<void> TcpLink::check() {
    wire::Bytes unexpected;
    LEAT_TRY(socket_.receive_into(unexpected));
    if (!unexpected.empty()) return corrupt("it sends on the data connection");
    is_connected_ = is_connected_ || socket_.is_connected();
    return {};
}

pollfd TcpLink::wanted() const {
    const bool has_output = !is_idle() || !is_connected();
    return {socket_.fd(), static_cast<short>(has_output ? POLLIN | POLLOUT : POLLIN), 0};
}

}  // namespace leat::output
