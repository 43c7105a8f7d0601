// <leat/capture.h>
#include <fmt/ranges.h>
#include <leat/capture.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <exception>

#include "base/local_time.hpp"
#include "base/printable_text.hpp"
#include "capture/capture.hpp"
#include "ctf/tsdl/tsdl_lexer.hpp"
#include "session/contexts.hpp"
#include "session/event_rules.hpp"
#include "session/limits.hpp"

using namespace leat;
using capture::Block;
using capture::Capture;
using capture::End;

struct leat_capture {
    std::unique_ptr<Capture> engine;
    mutable std::string warnings{};
};

namespace {

constexpr std::uint32_t kBlocks = 8;
constexpr std::uint32_t kBlockSize = 128U << 10;
constexpr std::uint64_t kSmallestBlock = 4096;
constexpr std::uint64_t kFlushPeriod = 1'000'000'000;  // ns
constexpr std::uint64_t kSmallestSize = session::Limits::kSmallestSize;
constexpr std::size_t kMaxEnvironment = 256;
// Where this library was loaded. Others are children of fork().
const pid_t first_process = ::getpid();
// That every trace of a process has.
constexpr std::array<std::string_view, 13> kOwnLines{"domain",
                                                     "tracer_name",
                                                     "tracer_major",
                                                     "tracer_minor",
                                                     "tracer_buffering_scheme",
                                                     "tracer_buffering_id",
                                                     "architecture_bit_width",
                                                     "trace_name",
                                                     "trace_creation_datetime",
                                                     "hostname",
                                                     "vpid",
                                                     "procname",
                                                     "vpid_datetime"};

Result<std::vector<std::string>> patterns_of(const char* const* events) {
    std::vector<std::string> patterns;
    for (; events != nullptr && *events != nullptr; ++events) patterns.emplace_back(*events);
    if (events != nullptr && patterns.empty()) return refused("no event pattern: leave `events` out for all events");
    if (patterns.empty()) patterns.emplace_back("*");
    return patterns;
}

std::vector<std::string> separated_by_commas(std::string_view text) {
    std::vector<std::string> parts;
    for (std::size_t begin = 0; begin <= text.size();) {
        const std::size_t end = std::min(text.find(',', begin), text.size());
        parts.emplace_back(text.substr(begin, end - begin));
        begin = end + 1;
    }
    return parts;
}

Result<void> set_blocks(const leat_capture_options& options, Capture::Options& found) {
    const std::uint64_t blocks = options.blocks == 0 ? kBlocks : options.blocks;
    found.block_size = options.block_size == 0 ? kBlockSize : options.block_size;
    found.channel.ring_size = blocks * found.block_size;
    if (found.block_size < kSmallestBlock)
        return refused("a block has {} bytes or more, not {}", kSmallestBlock, found.block_size);
    if (blocks < 4 || !std::has_single_bit(blocks) || !std::has_single_bit(found.block_size))
        return refused("blocks and their size are powers of two, and there are 4 blocks or more, not {} of {} bytes",
                       blocks, found.block_size);
    if (!ring::is_valid_ring_size(found.channel.ring_size))
        return refused("the blocks of a CPU have 64 KiB to 1 GiB together, not {} times {} bytes", blocks,
                       found.block_size);
    return {};
}

// Whatever the program's locale is.
bool is_name(std::string_view text) {
    const auto is_digit = [](char c) { return c >= '0' && c <= '9'; };
    const auto is_letter = [](char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; };
    return !text.empty() && text.size() <= 255 && !is_digit(text[0]) &&
           std::ranges::all_of(text, [&](char c) { return is_digit(c) || is_letter(c); });
}

Result<std::vector<ctf::EnvironmentEntry>> environment_of(const leat_capture_options& options) {
    if (options.environment_count > kMaxEnvironment)
        return refused("the environment has {} lines at most, not {}", kMaxEnvironment, options.environment_count);
    std::vector<ctf::EnvironmentEntry> entries;
    for (std::size_t i = 0; i < options.environment_count; ++i) {
        const leat_capture_environment& line = options.environment[i];
        const std::string name = line.name == nullptr ? "" : line.name;
        if (!is_name(name))
            return refused("\"{}\" is no name for a line of the environment: letters, digits, underscores",
                           printable(name));
        if (ctf::is_keyword(name))
            return refused("\"{}\" is no name for a line of the environment: it is a keyword of TSDL", name);
        if (std::ranges::count(kOwnLines, name) != 0 ||
            std::ranges::count(entries, name, &ctf::EnvironmentEntry::name) != 0)
            return refused("the environment has a line \"{}\" already: give it another name", name);
        if (line.text != nullptr)
            entries.push_back({name, std::string(line.text)});
        else
            entries.push_back({name, line.number});
    }
    return entries;
}

// A program that was compiled with an older header has a shorter struct.
leat_capture_options complete(const leat_capture_options& options) {
    leat_capture_options all = LEAT_CAPTURE_OPTIONS;
    std::memcpy(&all, &options, std::min(options.size, sizeof all));
    return all;
}

Result<std::unique_ptr<Capture>> start(const leat_capture_options& given) {
    const leat_capture_options options = complete(given);
    if (options.directory == nullptr || *options.directory == '\0') return refused("a capture needs a directory");
    if (options.duration_ns == 0) return refused("a capture needs a duration: 1 ns or more");
    if (options.max_size < kSmallestSize)
        return refused("a capture needs a size: {} bytes or more, not {}", kSmallestSize, options.max_size);
    auto environment = LEAT_TRY(environment_of(options));
    Capture::Options found{.directory = options.directory,
                           .duration = options.duration_ns,
                           .max_size = options.max_size,
                           .channel = {.contexts = {}},
                           .block_size = 0,
                           .flush_period = options.flush_period_ns == 0 ? kFlushPeriod : options.flush_period_ns,
                           .environment = std::move(environment)};
    LEAT_TRY(set_blocks(options, found));
    const char* const header = options.header == nullptr ? "tiny" : options.header;
    const auto kind = session::header_kind(header);
    if (!kind) return refused("headers are tiny, compact or large, not \"{}\"", printable(header));
    found.channel.header = *kind;
    found.channel.rules = session::make_rules(LEAT_TRY(patterns_of(options.events)), {}, std::nullopt);
    if (options.contexts != nullptr)
        found.channel.contexts = LEAT_TRY(session::parse_contexts(separated_by_commas(options.contexts)));
    return Capture::start(found);
}

void tell(char* error, std::string_view text) {
    if (error == nullptr) return;
    const std::size_t size = std::min<std::size_t>(text.size(), LEAT_CAPTURE_ERROR_SIZE - 1);
    std::memcpy(error, text.data(), size);
    error[size] = '\0';
}

// No exception leaves: whoever calls us may be a C program.
template <class Answer, class Call>
Answer answer_of(leat_capture* capture, Answer without_memory, Call call) {
    try {
        return call();
    } catch (const std::exception&) {
        capture->engine->give_up();
        return without_memory;
    }
}

int hand_out(Capture& engine, leat_capture_buffer* buffers, int count) {
    engine.poll();
    if (engine.is_over()) return -1;
    int filled = 0;
    for (; filled < count; ++filled) {
        Block* const block = engine.hand_out();
        if (block == nullptr) break;
        leat_capture_buffer& buffer = buffers[filled];
        buffer.number = block->number;
        buffer.fd = engine.fd_of(*block);
        buffer.offset = block->offset + block->written;
        const auto parts = block->parts(buffer.part_count);
        std::ranges::copy(parts, buffer.parts);
    }
    return filled;
}

}  // namespace

leat_capture* leat_capture_start(const leat_capture_options* options, char* error) {
    try {
        if (::getpid() == first_process)
            remember_time_zone();
        else
            go_by_remembered_time_zone();
        auto started = start(*options);
        if (started) return new leat_capture{.engine = *std::move(started)};
        tell(error, started.error().message);
    } catch (const std::exception& trouble) {
        tell(error, trouble.what());  // there is no memory
    }
    return nullptr;
}

int leat_capture_poll(leat_capture* capture, leat_capture_buffer* buffers, int count) {
    return answer_of(capture, 0, [&] { return hand_out(*capture->engine, buffers, count); });
}

void leat_capture_written(leat_capture* capture, const leat_capture_buffer* buffer, ssize_t result) {
    (void)answer_of(capture, false, [&] {
        capture->engine->written(buffer->number, result);
        return true;
    });
}

int leat_capture_write(leat_capture* capture) {
    return answer_of(capture, 1, [&] {
        capture->engine->write();
        return capture->engine->is_over() ? 0 : 1;
    });
}

int leat_capture_submit(leat_capture* capture) {
    return answer_of(capture, 0, [&] {
        const std::size_t under_way = capture->engine->submit();
        return capture->engine->is_over() ? -1 : static_cast<int>(under_way);
    });
}

void leat_capture_stop(leat_capture* capture) {
    (void)answer_of(capture, false, [&] {
        capture->engine->stop();
        return true;
    });
}

void leat_capture_get_result(const leat_capture* capture, leat_capture_result* result) {
    const Capture& engine = *capture->engine;
    *result = {};
    static_assert(static_cast<int>(End::kError) == LEAT_CAPTURE_ENDED_BY_ERROR);
    result->end = static_cast<leat_capture_end>(engine.end());
    result->is_over = engine.is_over() ? 1 : 0;
    result->events = engine.events();
    result->skipped = engine.skipped();
    result->lost = engine.lost();
    result->bytes = engine.bytes();
    if (engine.error()) result->error = engine.error()->message.c_str();
    if (engine.warnings().empty()) return;
    try {
        capture->warnings = fmt::format("{}", fmt::join(engine.warnings(), "\n"));
        result->warnings = capture->warnings.c_str();
    } catch (const std::exception&) {
        result->warnings = "out of memory: there are warnings";
    }
}

void leat_capture_free(leat_capture* capture) { delete capture; }
