// The processes that write, and that are killed while they write.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <filesystem>

#include "base/result.hpp"
#include "crash/ledger.hpp"

namespace leat::torture {

struct WriterParameters {
    std::filesystem::path runtime_directory;
    // How many events a writer may be ahead of what has arrived, so that rings do not get full; 0: no limit.
    std::uint64_t lead = 0;
    bool has_rseq = true;
    bool has_children = false;  // of every kind; they emit for the writer
};

// Exit statuses.
inline constexpr int kWriterDone = 0;
inline constexpr int kWriterNotTraced = 3;
inline constexpr int kWriterLostChild = 4;

// Starts this program once more, as a writer.
Result<pid_t> start_writer(std::uint32_t incarnation, const Ledger& ledger, const WriterParameters& parameters);

// In the writer: writes until it is told to end.
int run_writer(std::uint32_t incarnation, int ledger_fd, std::uint64_t lead, bool has_children);

}  // namespace leat::torture
