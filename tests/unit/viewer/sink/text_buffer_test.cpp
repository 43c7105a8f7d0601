#include "viewer/sink/text_buffer.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <array>
#include <string>
#include <thread>

#include "base/unique_fd.hpp"

namespace leat::viewer {
namespace {

struct Pipe {
    Pipe() {
        std::array<int, 2> ends{};
        EXPECT_EQ(::pipe2(ends.data(), O_CLOEXEC), 0);
        reader = UniqueFd(ends[0]);
        writer = UniqueFd(ends[1]);
    }
    UniqueFd reader;
    UniqueFd writer;
};

// A neighbour that has the same pipe may have set that writers do not wait.
TEST(TextBuffer, SlowReaderIsWaitedForInAnyCase) {
    Pipe pipe;
    EXPECT_EQ(::fcntl(pipe.writer.get(), F_SETFL, O_NONBLOCK), 0);
    const std::string text(1U << 20, 'x');
    std::string read;
    std::thread reading([&] {
        std::array<char, 4096> piece{};
        for (ssize_t size = 0; (size = ::read(pipe.reader.get(), piece.data(), piece.size())) > 0;)
            read.append(piece.data(), static_cast<std::size_t>(size));
    });
    TextBuffer buffer(pipe.writer.get());
    buffer.append(text);
    EXPECT_TRUE(buffer.flush());
    pipe.writer.reset();
    reading.join();
    EXPECT_TRUE(read == text);
}

}  // namespace
}  // namespace leat::viewer
