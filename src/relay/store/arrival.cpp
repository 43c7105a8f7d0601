#include "relay/store/arrival.hpp"

#include <utility>

namespace leat::relay {

Result<void> Arrival::begin(const wire::DataHeader& header, FileSequence& files) {
    StreamFile* const file = LEAT_TRY(files.for_packet(header.data_size));
    const std::uint64_t size = std::uint64_t{header.data_size} + header.padding_size;
    packet_ = ArrivingPacket{
        .number = header.net_seq_num,
        .place = {.file_number = file->number(), .offset = file->size(), .size = size, .came = header.data_size}};
    return {};
}

Arrival::Target Arrival::begin_write(FileSequence& files) {
    packet_->is_being_written = true;
    const std::uint64_t size = packet_->place.came;
    const std::uint64_t missing = packet_->received < size ? size - packet_->received : 0;
    return {files.find(packet_->place.file_number)->open(), packet_->place.offset + packet_->received, missing};
}

Result<std::optional<Arrival::Complete>> Arrival::end_write(std::uint64_t written, FileSequence& files) {
    packet_->is_being_written = false;
    packet_->received += written;
    StreamFile& file = *files.find(packet_->place.file_number);
    file.note_written(packet_->place.offset + packet_->received);
    if (packet_->received < packet_->place.came) return std::optional<Complete>();
    LEAT_TRY(pad(file));
    const ArrivingPacket packet = *std::exchange(packet_, std::nullopt);
    return std::optional(Complete{packet.number, packet.place});
}

Result<void> Arrival::pad(StreamFile& file) {
    if (packet_->received >= packet_->place.size) return {};
    LEAT_TRY(file.extend(packet_->place.offset + packet_->place.size));
    packet_->received = packet_->place.size;
    return {};
}

void Arrival::drop(FileSequence& files) {
    if (!packet_) return;
    files.find(packet_->place.file_number)->truncate(packet_->place.offset);
    packet_.reset();
}

}  // namespace leat::relay
