#include "wire/app/control_file.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cstring>

#include "base/check.hpp"
#include "base/printable_text.hpp"
#include "wire/app/app_protocol.hpp"
#include "wire/app/description_format.hpp"

namespace leat::wire {
namespace {

constexpr int kOfFixedSize = F_SEAL_SHRINK | F_SEAL_GROW;
// The description of a tracepoint without fields, see description_format.hpp.
constexpr std::uint32_t kMinDescriptionSize = 18;

Result<void> read(int fd, std::span<std::byte> bytes, std::uint64_t offset) {
    if (::pread(fd, bytes.data(), bytes.size(), static_cast<off_t>(offset)) != static_cast<ssize_t>(bytes.size()))
        return io_error("cannot read the control memory");
    return {};
}

Result<void> check_header(const ControlFileHeader& header) {
    if (header.magic != kControlMagic) return corrupt("control memory begins with {:#x}", header.magic);
    if (header.version != kAppVersion)
        return unsupported("control memory of version {}; this is version {}", header.version, kAppVersion);
    if (header.bitness != 32 && header.bitness != 64)
        return corrupt("control memory of a program of {} bits", header.bitness);
    if (header.descriptions_size < kDescriptionHeaderSize || header.descriptions_size > kMaxDescriptionSize)
        return refused("description table of {} bytes; the limit is {}", header.descriptions_size, kMaxDescriptionSize);
    if (header.tracepoint_count > (header.descriptions_size - kDescriptionHeaderSize) / kMinDescriptionSize)
        return corrupt("descriptions of {} tracepoints do not fit into {} bytes", header.tracepoint_count,
                       header.descriptions_size);
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

Result<ControlFile> ControlFile::open(UniqueFd fd, Lane lane) {
    const int seals = ::fcntl(fd.get(), F_GET_SEALS);
    if (seals < 0 || (seals & kOfFixedSize) != kOfFixedSize) return refused("the control memory is not sealed");
    struct stat status {};
    if (::fstat(fd.get(), &status) != 0) return io_error("cannot stat the control memory");
    ControlFileHeader header{};
    LEAT_TRY(read(fd.get(), std::as_writable_bytes(std::span(&header, 1)), 0));
    LEAT_TRY(check_header(header));
    const ControlLayout layout{header.tracepoint_count, header.descriptions_size};
    if (static_cast<std::uint64_t>(status.st_size) != layout.size())
        return corrupt("control memory of {} bytes, not {}", status.st_size, layout.size());
    ControlFile file(std::move(fd), lane, header);
    LEAT_TRY(file.read_words());
    return file;
}

ControlFile::ControlFile(UniqueFd fd, Lane lane, const ControlFileHeader& header)
    : fd_(std::move(fd)),
      lane_(lane),
      layout_{header.tracepoint_count, header.descriptions_size},
      bitness_(header.bitness),
      pid_(header.pid),
      procname_(printable(std::string(header.procname, ::strnlen(header.procname, sizeof header.procname)))),
      changes_(header.tracepoint_count),
      is_on_(header.tracepoint_count) {}

// What an earlier daemon has left.
Result<void> ControlFile::read_words() {
    std::vector<ControlEntry> entries(layout_.tracepoint_count);
    LEAT_TRY(read(fd_.get(), std::as_writable_bytes(std::span(entries)), layout_.entry(0)));
    for (std::size_t i = 0; i < entries.size(); ++i) {
        const std::uint8_t now = lane_byte(entries[i].word, lane());
        is_on_[i] = now != 0;
        changes_[i] = is_on_[i] ? now : entries[i].last[lane()];
    }
    return {};
}

Result<std::vector<TracepointDescription>> ControlFile::read_descriptions() const {
    std::vector<std::byte> table(layout_.descriptions_size);
    LEAT_TRY(read(fd_.get(), table, layout_.descriptions()));
    auto descriptions = LEAT_TRY(parse_descriptions(table));
    if (descriptions.size() != layout_.tracepoint_count)
        return corrupt("{} tracepoints are described, not {}", descriptions.size(), layout_.tracepoint_count);
    return descriptions;
}

// O: the actions are there before the word that names their list. Pairs with P in leat_write(): system calls and x86
// keep the order of stores.
Result<void> ControlFile::switch_to(std::uint32_t tracepoint, std::span<const Action> actions) {
    LEAT_CHECK(tracepoint < layout_.tracepoint_count && actions.size() <= kMaxActions);
    const std::uint64_t entry = layout_.entry(tracepoint);
    const std::uint64_t byte_at = entry + offsetof(ControlEntry, word) + lane();
    if (actions.empty()) {
        if (!is_on_[tracepoint]) return {};
        const std::array last{static_cast<std::byte>(changes_[tracepoint])};
        LEAT_TRY(write(last, entry + offsetof(ControlEntry, last) + lane()));
        constexpr std::array kOff{std::byte{0}};
        LEAT_TRY(write(kOff, byte_at));
        is_on_[tracepoint] = false;
        return {};
    }
    const std::uint8_t next = next_byte(changes_[tracepoint], actions.size() > 1);
    const std::uint64_t list = 2ULL * lane() + list_of(next);
    LEAT_TRY(write(std::as_bytes(actions.first(1)), entry + offsetof(ControlEntry, first) + list * sizeof(Action)));
    const std::array more{static_cast<std::byte>(actions.size() - 1)};
    LEAT_TRY(write(more, entry + offsetof(ControlEntry, more) + list));
    if (actions.size() > 1)
        LEAT_TRY(write(std::as_bytes(actions.subspan(1)),
                       layout_.more_actions(tracepoint) + list * (kMaxActions - 1) * sizeof(Action)));
    const std::array byte{static_cast<std::byte>(next)};
    LEAT_TRY(write(byte, byte_at));
    changes_[tracepoint] = next;
    is_on_[tracepoint] = true;
    return {};
}

Result<std::uint64_t> ControlFile::not_attached() const {
    std::uint64_t count = 0;
    LEAT_TRY(read(fd_.get(), std::as_writable_bytes(std::span(&count, 1)),
                  offsetof(ControlFileHeader, not_attached) + lane() * sizeof count));
    return count;
}

Result<void> ControlFile::write(std::span<const std::byte> bytes, std::uint64_t offset) const {
    if (::pwrite(fd_.get(), bytes.data(), bytes.size(), static_cast<off_t>(offset)) !=
        static_cast<ssize_t>(bytes.size()))
        return io_error("cannot write to the control memory");
    return {};
}

}  // namespace leat::wire
