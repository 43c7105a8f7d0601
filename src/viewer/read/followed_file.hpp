#pragma once

#include <sys/types.h>

#include <compare>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/result.hpp"
#include "base/unique_fd.hpp"
#include "trace/index_format.hpp"

namespace leat::viewer {

// Which file or directory it is, whatever its name. As long as somebody has it open, no other has the same identity;
// afterwards none has on file systems that know when it was made, but those made in the same tick of a few ms.
struct FileIdentity {
    dev_t device = 0;
    ino_t inode = 0;
    std::int64_t birth_ns = 0;  // since 1970; 0: nobody knows
    auto operator<=>(const FileIdentity&) const = default;

    static FileIdentity of(int fd);
    // Returns nothing if there is no file of that name.
    static std::optional<FileIdentity> of(const std::filesystem::path& path);
};

// A stream's file and its index while they are written. The writer may put new files in their place; this object then
// goes on reading the old ones.
//
// The writer replaces the index before the data, and writes an entry after the data it describes. So the data that we
// open belong to the index that we hold if two things are true: our index has an entry, and the name still stands for
// our index afterwards.
class FollowedFile {
  public:
    // Returns null if there is no index yet.
    // `shown` is the path that people know.
    static Result<std::unique_ptr<FollowedFile>> open(const std::filesystem::path& path,
                                                      const std::filesystem::path& shown);

    // Whether the name stands for another file by now.
    [[nodiscard]] bool is_replaced() const;
    // As people know it.
    [[nodiscard]] const std::string& name() const { return name_; }

    // The index entry at our position; nothing if it is not whole yet.
    Result<std::optional<ctf::IndexEntry>> entry();
    void skip_entry() { position_ += entry_size_; }
    // The first entry that says which stream the file belongs to. There may be none while all packets so far were lost.
    Result<std::optional<ctf::IndexEntry>> telling_entry();

    // Call this when there is an entry. Returns false if the data were replaced before, so that they are missed.
    Result<bool> open_data();
    // -1 before open_data() and after close().
    [[nodiscard]] int data() const { return data_.get(); }
    // Call this at the end of the data: nothing more is read. The index stays open where its inode might be reused for
    // a later file, and nobody could tell: on file systems without births, or if it has just been born.
    void close();

  private:
    FollowedFile(std::filesystem::path path, const std::filesystem::path& shown, UniqueFd index);
    Result<std::optional<ctf::IndexEntry>> entry_at(std::uint64_t position);
    Result<bool> read_header();

    std::string name_;
    std::filesystem::path data_name_;
    std::filesystem::path index_name_;
    UniqueFd index_;
    FileIdentity identity_;  // of the index
    UniqueFd data_;
    std::uint64_t entry_size_ = 0;  // 0: the header has not been read
    std::uint64_t position_ = trace::kIndexHeaderSize;
};

std::uint64_t size_of_file(int fd);

}  // namespace leat::viewer
