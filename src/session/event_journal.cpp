#include "session/event_journal.hpp"

namespace leat::session {

Result<void> EventJournal::append(std::string_view block) {
    if (size_ > kMaxSize || block.size() > kMaxSize - size_)
        return refused("the descriptions of a trace's events take at most {} bytes", kMaxSize);
    if (journal_ != nullptr) LEAT_TRY(journal_->append(block));
    size_ += block.size();
    return {};
}

}  // namespace leat::session
