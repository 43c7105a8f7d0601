#include "viewer/sink/csv_sink.hpp"

#include <gtest/gtest.h>

#include <array>
#include <span>
#include <string>

#include "ctf/tsdl/tsdl_parser.hpp"

namespace leat::viewer {
namespace {

class CsvSinkTest : public ::testing::Test {
  protected:
    CsvSinkTest() {
        using namespace std::string_literals;
        trace_class_ = *ctf::parse_tsdl(
            "typealias integer { size = 8; } := u8;"
            "trace { major = 1; minor = 8; byte_order = le; };"
            "env { hostname = \"here\"; };"
            "stream { packet.context := struct { u8 cpu_id; }; event.context := struct { u8 n; }; };"
            "event { name = \"say \\\"a,b\\\"\"; fields := struct { u8 n; string s; enum : u8 { RED } e; enum : u8 { A "
            "} f;"
            " u8 list[2]; floating_point { exp_dig = 8; mant_dig = 24; } r; }; };");
        plan_ = *ctf::make_decode_plan(trace_class_, trace_class_.streams.front());
        bytes_ = "\x03\x01\x02two\n\"lines\"\0\x00\x07\x08\x09\x00\x00\xC0\x7F"s;
        packet_ = {1, &trace_class_, &plan_, &stream_, std::as_bytes(std::span(bytes_)), 8 * bytes_.size()};
        ctf::PacketDecoder decoder(plan_);
        EXPECT_TRUE(decoder.start(packet_.bytes, 0));
        EXPECT_EQ(decoder.locate(std::span(&place_, 1)).value(), 1U);
    }

    std::string table(std::optional<std::string_view> columns) {
        auto sink = CsvSink::make(columns, classes_);
        if (!sink) return sink.error().message;
        TextBuffer text(-1);
        sink->append_header(text);
        EXPECT_TRUE(sink->append(text, packet_, place_));
        return std::string(text.text());
    }

    ctf::TraceClass trace_class_;
    std::array<const ctf::TraceClass*, 1> classes_{&trace_class_};
    ctf::DecodePlan plan_;
    StreamIdentity stream_{.name = "stream"};
    std::string bytes_;
    PacketView packet_;
    ctf::EventPlace place_;
};

TEST_F(CsvSinkTest, AllColumnsTellContextsAndFieldsApart) {
    EXPECT_EQ(table(std::nullopt),
              "time,time_ns,name,cpu_id,$ctx.n,n,s,e,f,list,r\n"
              ",,\"say \"\"a,b\"\"\",3,1,2,\"two\n\"\"lines\"\"\",RED,7,\"[8,9]\",NaN\n");
}

TEST_F(CsvSinkTest, ColumnsAsTheyAreAskedFor) {
    EXPECT_EQ(table("n,$ctx.n,payload.n,list[1],hostname,log_level"),
              "n,$ctx.n,payload.n,list[1],hostname,log_level\n2,1,2,9,here,\n");
    EXPECT_EQ(table("log_level"), "log_level\n\"\"\n");
    for (const char* wrong : {"", "nosuch", "n,", "$ctx.s", "payload.cpu_id", "n == 1", "1", "$name"})
        EXPECT_NE(table(wrong).find("column"), std::string::npos) << wrong << ": " << table(wrong);
}

}  // namespace
}  // namespace leat::viewer
