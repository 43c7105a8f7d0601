#include "trace/index_format.hpp"

#include <gtest/gtest.h>

#include "support/hex.hpp"

namespace leat::trace {
namespace {

constexpr ctf::PacketHeader kHeader{.stream_id = 0x01020304,
                                    .stream_instance_id = 0x0506,
                                    .timestamp_begin = 0x1112131415161718,
                                    .timestamp_end = 0x2122232425262728,
                                    .content_size = 0x3132,
                                    .packet_size = 0x4142,
                                    .packet_seq_num = 0x51,
                                    .events_discarded = 0x61};

using test::hex;

TEST(IndexFormat, HeaderIsLttngs) {
    EXPECT_EQ(hex(encode_index_header()),
              "c1f1dcc1"
              "00000001"
              "00000001"
              "00000048");
}

TEST(IndexFormat, EntryIsBigEndian) {
    EXPECT_EQ(hex(encode_index_entry(ctf::index_entry_of(kHeader, 0x0a0b))),
              "0000000000000a0b"
              "0000000000004142"
              "0000000000003132"
              "1112131415161718"
              "2122232425262728"
              "0000000000000061"
              "0000000001020304"
              "0000000000000506"
              "0000000000000051");
}

}  // namespace
}  // namespace leat::trace
