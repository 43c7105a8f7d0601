#include "ctf/record/packet_header.hpp"

#include <gtest/gtest.h>

#include <span>

#include "base/byte_cursor.hpp"
#include "support/hex.hpp"

namespace leat::ctf {
namespace {

using test::hex;

constexpr PacketHeader kHeader{
    .uuid = {0x00, 0x11, 0x22, 0x33, 0x44, 0x55, 0x66, 0x77, 0x88, 0x99, 0xaa, 0xbb, 0xcc, 0xdd, 0xee, 0xff},
    .stream_id = 0x01020304,
    .stream_instance_id = 0x0506,
    .timestamp_begin = 0x1112131415161718,
    .timestamp_end = 0x2122232425262728,
    .content_size = 0x3132,
    .packet_size = 0x4142,
    .packet_seq_num = 0x51,
    .events_discarded = 0x61,
    .cpu_or_thread_ring = 0x71};

TEST(PacketHeader, IsLittleEndianAndPacked) {
    EXPECT_EQ(hex(encode(kHeader)),
              "c11ffcc1"
              "00112233445566778899aabbccddeeff"
              "04030201"
              "0605000000000000"
              "1817161514131211"
              "2827262524232221"
              "3231000000000000"
              "4241000000000000"
              "5100000000000000"
              "6100000000000000"
              "71000000");
}

TEST(PacketHeader, ClassesDescribeAsManyBits) {
    std::uint64_t bits = 0;
    for (const StructClass& part : {packet_header_class(), packet_context_class("clock", "cpu_id")}) {
        for (const StructMember& member : part.members) {
            const auto* array = member.field_class.as<ArrayClass>();
            const auto* element =
                array != nullptr ? array->element->as<IntegerClass>() : member.field_class.as<IntegerClass>();
            bits += element->size * (array != nullptr ? array->length : 1);
        }
    }
    EXPECT_EQ(bits, kPacketHeaderSize * 8);
}

}  // namespace
}  // namespace leat::ctf
