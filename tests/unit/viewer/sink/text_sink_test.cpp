#include "viewer/sink/text_sink.hpp"

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <array>
#include <string>

#include "base/unique_fd.hpp"
#include "ctf/tsdl/tsdl_parser.hpp"
#include "viewer/merge/trace_name.hpp"

namespace leat::viewer {
namespace {

ctf::TraceClass trace_with(const std::string& environment) {
    return ctf::parse_tsdl("trace { major = 1; minor = 8; byte_order = le; }; env { " + environment + " };").value();
}

// What people are told of a loss.
std::string warning_of(const ctf::TraceClass& trace_class, const StreamIdentity& stream, const Loss& loss) {
    const UniqueFd output(::memfd_create("warnings", MFD_CLOEXEC));
    TextSink sink({.is_gmt = true, .has_cycles = true}, std::nullopt, output.get(), output.get());
    Message message;
    message.kind = Message::Kind::kDiscardedEvents;
    message.trace_class = &trace_class;
    message.stream = &stream;
    message.loss = loss;
    EXPECT_TRUE(sink.consume(message));
    std::array<char, 4096> text{};
    const auto size = ::pread(output.get(), text.data(), text.size(), 0);
    return {text.data(), static_cast<std::size_t>(std::max<ssize_t>(size, 0))};
}

TEST(TextSink, LossOfWhichTheTimeIsUnknownSaysSo) {
    const ctf::TraceClass trace_class = trace_with("hostname = \"h\";");
    const StreamIdentity stream{.class_id = 3, .instance_id = 4, .name = "/s", .trace_path = "sub/t"};
    EXPECT_EQ(warning_of(trace_class, stream, {.count = 5}),
              "WARNING: Tracer discarded 5 events (unknown time range) in trace \"h/sub/t\" (no UUID) within stream "
              "\"/s\" (stream class ID: 3, stream ID: 4).\n");
    EXPECT_EQ(warning_of(trace_class, stream, {.count = {}, .begin_ns = 1, .end_ns = 2}),
              "WARNING: Tracer may have discarded events between [00:00:00.000000001] and [00:00:00.000000002] in "
              "trace \"h/sub/t\" (no UUID) within stream \"/s\" (stream class ID: 3, stream ID: 4).\n");
}

TEST(TraceName, IsTheHostAndThePath) {
    EXPECT_EQ(trace_name(trace_with("a = 1;"), ""), "");
    EXPECT_EQ(trace_name(trace_with("a = 1;"), "x"), "x");
    EXPECT_EQ(trace_name(trace_with("hostname = \"h\";"), ""), "h");
    EXPECT_EQ(trace_name(trace_with("hostname = \"\";"), "x"), "/x");
}

}  // namespace
}  // namespace leat::viewer
