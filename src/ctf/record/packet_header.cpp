#include "ctf/record/packet_header.hpp"

#include <cstring>

#include "base/check.hpp"

namespace leat::ctf {
namespace {

IntegerClass unsigned_integer(unsigned bits, const std::string& clock = {}) { return {.size = bits, .clock = clock}; }

// Appends values as they are in memory: our processors are little-endian, and so the metadata declares the fields.
class Encoder {
  public:
    template <class T>
    void put(const T& value) {
        LEAT_CHECK(offset_ + sizeof value <= bytes.size());
        std::memcpy(bytes.data() + offset_, &value, sizeof value);
        offset_ += sizeof value;
    }
    std::array<std::byte, kPacketHeaderSize> bytes{};

  private:
    std::size_t offset_ = 0;
};

}  // namespace

std::array<std::byte, kPacketHeaderSize> encode(const PacketHeader& header) {
    Encoder out;
    out.put(kPacketMagic);
    out.put(header.uuid);
    out.put(header.stream_id);
    out.put(header.stream_instance_id);
    out.put(header.timestamp_begin);
    out.put(header.timestamp_end);
    out.put(header.content_size);
    out.put(header.packet_size);
    out.put(header.packet_seq_num);
    out.put(header.events_discarded);
    out.put(header.cpu_or_thread_ring);
    return out.bytes;
}

StructClass packet_header_class() {
    return {{{"magic", unsigned_integer(32)},
             {"uuid", ArrayClass{FieldClass(unsigned_integer(8)), 16}},
             {"stream_id", unsigned_integer(32)},
             {"stream_instance_id", unsigned_integer(64)}}};
}

StructClass packet_context_class(const std::string& clock, const std::string& owner) {
    return {{{"timestamp_begin", unsigned_integer(64, clock)},
             {"timestamp_end", unsigned_integer(64, clock)},
             {"content_size", unsigned_integer(64)},
             {"packet_size", unsigned_integer(64)},
             {"packet_seq_num", unsigned_integer(64)},
             {"events_discarded", unsigned_integer(64)},
             {owner, unsigned_integer(32)}}};
}

}  // namespace leat::ctf
