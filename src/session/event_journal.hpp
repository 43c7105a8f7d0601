#pragma once

#include <cstdint>
#include <string_view>

#include "base/journal.hpp"
#include "base/result.hpp"
#include "ctf/metadata/metadata_stream.hpp"

namespace leat::session {

// The event classes of a trace, in the order in which they came: no more than its readers take, and where the trace is
// kept, in a journal, so that the next process knows all ids. Registering thread.
class EventJournal {
  public:
    // TSDL. In metadata each class may be there twice, for the streams of CPUs and for those of threads; and there is
    // the trace itself.
    static constexpr std::uint64_t kMaxSize = ctf::kMaxMetadataSize / 2 - (1U << 20U);

    EventJournal() = default;
    // Goes on where the journal ends, which outlives it; null: the trace is not kept.
    explicit EventJournal(Journal* journal) : journal_(journal), size_(journal == nullptr ? 0 : journal->size()) {}

    // All or nothing.
    Result<void> append(std::string_view block);

  private:
    Journal* journal_ = nullptr;
    std::uint64_t size_ = 0;  // bytes
};

}  // namespace leat::session
