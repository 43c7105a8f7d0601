#include "viewer/sink/text_buffer.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <array>
#include <string>
#include <thread>

#include "support/pipe.hpp"

namespace leat::viewer {
namespace {

// A neighbour that has the same pipe may have set that writers do not wait.
TEST(TextBuffer, SlowReaderIsWaitedForInAnyCase) {
    test::Pipe pipe;
    EXPECT_EQ(::fcntl(pipe.write_end.get(), F_SETFL, O_NONBLOCK), 0);
    const std::string text(1U << 20, 'x');
    std::string read;
    std::thread reading([&] {
        std::array<char, 4096> piece{};
        for (ssize_t size = 0; (size = ::read(pipe.read_end.get(), piece.data(), piece.size())) > 0;)
            read.append(piece.data(), static_cast<std::size_t>(size));
    });
    TextBuffer buffer(pipe.write_end.get());
    buffer.append(text);
    EXPECT_TRUE(buffer.flush());
    pipe.write_end.reset();
    reading.join();
    EXPECT_TRUE(read == text);
}

}  // namespace
}  // namespace leat::viewer
