#pragma once

#include <filesystem>
#include <optional>
#include <span>

#include "base/mapped_file.hpp"
#include "base/result.hpp"
#include "viewer/check/finding.hpp"
#include "viewer/read/recorded_trace.hpp"

namespace leat::viewer {

// The index of a stream's file, compared with the packets. Readers go without one, or make their own: so what is wrong
// there loses nothing.
class IndexCheck {
  public:
    // To be made before the stream's file is opened: if it is still being written, it then has all that the index
    // names.
    explicit IndexCheck(const std::filesystem::path& stream_file);

    // `may_lack_last`: packets that were written last may be in no index yet.
    void run(std::span<const RecordedPacket> packets, bool may_lack_last, Findings& findings) const;

  private:
    [[nodiscard]] bool has_grown() const;

    std::filesystem::path path_;
    std::optional<Result<MappedFile>> mapping_{};  // none: there is no index
};

}  // namespace leat::viewer
