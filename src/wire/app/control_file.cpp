#include "wire/app/control_file.hpp"

#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstring>

#include "base/check.hpp"
#include "base/file.hpp"
#include "base/printable_text.hpp"
#include "wire/app/app_protocol.hpp"
#include "wire/app/description_format.hpp"

namespace leat::wire {
namespace {

// The description of a tracepoint without fields, see description_format.hpp.
constexpr std::uint32_t kMinDescriptionSize = 18;

Result<void> read(int fd, std::span<std::byte> bytes, std::uint64_t offset) {
    const auto size = read_at(fd, offset, bytes);
    if (!size) return wrap("the control memory", size.error());
    if (*size < bytes.size())
        return corrupt("the control memory ends at {}, in the middle of something", offset + *size);
    return {};
}

Result<void> check_header(const ControlFileHeader& header) {
    if (header.magic != kControlMagic) return corrupt("control memory begins with {:#x}", header.magic);
    if (header.version != kAppVersion)
        return unsupported("control memory of version {}; this is version {}", header.version, kAppVersion);
    if (header.bitness != 32 && header.bitness != 64)
        return corrupt("control memory of a program of {} bits", header.bitness);
    // 0 would stand for all programs of a user.
    if (header.pid == 0 || header.pid > INT32_MAX) return corrupt("control memory of process {}", header.pid);
    if (header.descriptions_size < kDescriptionHeaderSize || header.descriptions_size > kMaxDescriptionSize)
        return refused("description table of {} bytes; the limit is {}", header.descriptions_size, kMaxDescriptionSize);
    if (header.tracepoint_count > (header.descriptions_size - kDescriptionHeaderSize) / kMinDescriptionSize)
        return corrupt("descriptions of {} tracepoints do not fit into {} bytes", header.tracepoint_count,
                       header.descriptions_size);
    if (header.sticky_slots != 0 && header.sticky_slots != kStickySlots)
        return corrupt("control memory with {} slots for sticky values", header.sticky_slots);
    return {};
}

// Counts up from 1 to 63 and again, and takes the other list.
std::uint8_t next_byte(std::uint8_t last, bool has_many) {
    unsigned change = last >> kChangeShift;
    change = change == 63 ? 1 : change + 1;
    const unsigned list = list_of(last) ^ 1U;
    return static_cast<std::uint8_t>(change << kChangeShift | (has_many ? kManyActions : 0U) | list);
}

}  // namespace

Result<ControlFile> ControlFile::open(UniqueFd fd, Lane lane, const Admit& admit) {
    struct stat status {};
    if (::fstat(fd.get(), &status) != 0) return io_error("cannot stat the control memory");
    if (!S_ISREG(status.st_mode)) return refused("the control memory is no regular file");
    ControlFileHeader header{};
    LEAT_TRY(read(fd.get(), std::as_writable_bytes(std::span(&header, 1)), 0));
    LEAT_TRY(check_header(header));
    const ControlLayout layout{header.tracepoint_count, header.descriptions_size, header.sticky_slots};
    if (static_cast<std::uint64_t>(status.st_size) != layout.size())
        return corrupt("control memory of {} bytes, not {}", status.st_size, layout.size());
    if (admit) LEAT_TRY(admit(static_cast<std::uint32_t>(header.tracepoint_count)));
    ControlFile file(std::move(fd), lane, header);
    LEAT_TRY(file.read_words());
    return file;
}

ControlFile::ControlFile(UniqueFd fd, Lane lane, const ControlFileHeader& header)
    : fd_(std::move(fd)),
      lane_(lane),
      layout_{header.tracepoint_count, header.descriptions_size, header.sticky_slots},
      bitness_(header.bitness),
      pid_(header.pid),
      pid_namespace_(header.pid_namespace),
      procname_(printable(std::string(header.procname, ::strnlen(header.procname, sizeof header.procname)))),
      allows_blocking_((header.properties & kAllowsBlocking) != 0),
      written_(header.tracepoint_count) {}

Result<std::vector<ControlEntry>> ControlFile::read_entries() const {
    std::vector<ControlEntry> entries(layout_.tracepoint_count);
    LEAT_TRY(read(fd_.get(), std::as_writable_bytes(std::span(entries)), layout_.entry(0)));
    return entries;
}

// What an earlier daemon has left.
Result<void> ControlFile::read_words() {
    const std::vector<ControlEntry> entries = LEAT_TRY(read_entries());
    for (std::size_t i = 0; i < entries.size(); ++i) {
        const std::uint8_t now = lane_byte(entries[i].word, lane());
        const std::uint8_t* const more = entries[i].more[lane()];
        written_[i] = {.byte = now != 0 ? now : entries[i].last[lane()], .is_on = now != 0, .more = {more[0], more[1]}};
        const Action& first = entries[i].first[lane()][list_of(now)];
        if (now != 0 && channel_of_before_ == 0 && first.event_id != kNotEnabled) channel_of_before_ = first.channel;
    }
    return {};
}

Result<std::vector<TracepointDescription>> ControlFile::read_descriptions() const {
    return parse_table(LEAT_TRY(read_table()));
}

Result<std::string> ControlFile::read_table() const {
    std::string table(layout_.descriptions_size, '\0');
    LEAT_TRY(read(fd_.get(), std::as_writable_bytes(std::span(table)), layout_.descriptions()));
    return table;
}

Result<std::vector<TracepointDescription>> ControlFile::parse_table(const std::string& table) const {
    auto descriptions = LEAT_TRY(parse_descriptions(std::as_bytes(std::span(table))));
    if (descriptions.size() != layout_.tracepoint_count)
        return corrupt("{} tracepoints are described, not {}", descriptions.size(), layout_.tracepoint_count);
    return descriptions;
}

// O: the actions are there before the word that names their list. Pairs with P in write_x86_64.S: system calls and x86
// keep the order of stores.
Result<void> ControlFile::switch_to(std::uint32_t tracepoint, std::span<const Action> actions) {
    LEAT_CHECK(tracepoint < layout_.tracepoint_count && actions.size() <= kMaxActions);
    Written& written = written_[tracepoint];
    const std::uint64_t entry = layout_.entry(tracepoint);
    const std::uint64_t byte_at = entry + offsetof(ControlEntry, word) + lane();
    if (actions.empty()) {
        if (!written.is_on) return {};
        const std::array last{static_cast<std::byte>(written.byte)};
        LEAT_TRY(write(last, entry + offsetof(ControlEntry, last) + lane()));
        constexpr std::array kOff{std::byte{0}};
        LEAT_TRY(write(kOff, byte_at));
        written.is_on = false;
        return {};
    }
    const std::uint8_t next = next_byte(written.byte, actions.size() > 1);
    const std::uint64_t list = list_number(next);
    LEAT_TRY(write(std::as_bytes(actions.first(1)), entry + offsetof(ControlEntry, first) + list * sizeof(Action)));
    // Before their number: a program that is late with the list of before the last change must not read where no block
    // is yet, as that takes one, and there may be none.
    if (actions.size() > 1) LEAT_TRY(write(std::as_bytes(actions.subspan(1)), more_actions(tracepoint, next)));
    if (const auto more = static_cast<std::uint8_t>(actions.size() - 1); written.more[list_of(next)] != more) {
        LEAT_TRY(write(std::array{std::byte{more}}, entry + offsetof(ControlEntry, more) + list));
        written.more[list_of(next)] = more;
    }
    const std::array byte{static_cast<std::byte>(next)};
    LEAT_TRY(write(byte, byte_at));
    written.byte = next;
    written.is_on = true;
    return {};
}

// None, if it is off.
Result<std::vector<Action>> ControlFile::actions_of(std::uint32_t tracepoint, const ControlEntry& entry) const {
    const std::uint8_t byte = lane_byte(entry.word, lane());
    if (byte == 0) return {};
    std::vector<Action> actions{entry.first[lane()][list_of(byte)]};
    if ((byte & kManyActions) == 0) return actions;
    actions.resize(1 + std::min<std::size_t>(entry.more[lane()][list_of(byte)], kMaxActions - 1));
    LEAT_TRY(read(fd_.get(), std::as_writable_bytes(std::span(actions).subspan(1)), more_actions(tracepoint, byte)));
    return actions;
}

Result<void> ControlFile::switch_off(std::span<const std::uint32_t> channels) {
    const std::vector<ControlEntry> entries = LEAT_TRY(read_entries());
    Result<void> all;
    for (std::uint32_t i = 0; i < entries.size(); ++i) {
        std::vector<Action> actions = LEAT_TRY(actions_of(i, entries[i]));
        const auto goes_there = [&](const Action& action) {
            return std::ranges::find(channels, action.channel) != channels.end();
        };
        if (std::erase_if(actions, goes_there) == 0) continue;
        if (auto switched = switch_to(i, actions); !switched && all) all = std::move(switched);
    }
    return all;
}

Result<std::uint64_t> ControlFile::not_attached() const {
    std::uint64_t count = 0;
    LEAT_TRY(read(fd_.get(), std::as_writable_bytes(std::span(&count, 1)),
                  offsetof(ControlFileHeader, not_attached) + lane() * sizeof count));
    return count;
}

bool ControlFile::has_ended() const {
    std::uint32_t properties = 0;
    const auto read_them =
        read(fd_.get(), std::as_writable_bytes(std::span(&properties, 1)), offsetof(ControlFileHeader, properties));
    return read_them && (properties & kEnded) != 0;
}

bool ControlFile::is_in_use() const {
    if (::flock(fd_.get(), LOCK_EX | LOCK_NB) != 0) return true;
    ::flock(fd_.get(), LOCK_UN);
    return false;
}

Result<void> ControlFile::write(std::span<const std::byte> bytes, std::uint64_t offset) const {
    if (::pwrite(fd_.get(), bytes.data(), bytes.size(), static_cast<off_t>(offset)) !=
        static_cast<ssize_t>(bytes.size()))
        return io_error("cannot write to the control memory");
    return {};
}

}  // namespace leat::wire
