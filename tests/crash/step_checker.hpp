#pragma once

#include <sys/types.h>

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "consumer/output.hpp"
#include "crash/ledger.hpp"

namespace leat::torture {

// The output of the recording. Decodes every record and compares it with what its writer must have written. Keeps the
// first violation, in words.
class StepChecker final : public consumer::Output {
  public:
    // `has_children`: the writers have children that emit for them.
    StepChecker(const Ledger& ledger, bool has_children)
        : ledger_(&ledger), has_children_(has_children), writers_(ledger.size()) {}

    // Tells what the records of a process must say. To be called before the process can write.
    void expect(std::uint32_t incarnation, pid_t pid) { writers_[incarnation].pid = pid; }

    Result<void> write_metadata(std::string_view) override { return {}; }
    Result<void> write_packet(const consumer::Packet& packet) override;
    void write_beacon(consumer::StreamId stream, std::uint64_t timestamp) override {
        streams_[stream].timestamp = timestamp;
    }

    // What has arrived of one writer. Its events may come through several rings, and only those of one ring are in
    // order.
    struct Writer {
        pid_t pid = 0;
        std::uint64_t delivered = 0;
        std::uint64_t highest = 0;
        std::uint64_t sum = 0;  // of the counters, modulo 2^64

        // Whether 1, 2, 3 ... highest have each arrived once.
        [[nodiscard]] bool is_contiguous() const {
            const unsigned __int128 expected = static_cast<unsigned __int128>(highest) * (highest + 1) / 2;
            return delivered == highest && sum == static_cast<std::uint64_t>(expected);
        }
    };
    [[nodiscard]] const Writer& writer(std::uint32_t incarnation) const { return writers_[incarnation]; }

    // The number of discarded events that the packets report.
    [[nodiscard]] std::uint64_t discarded() const;
    // Empty if there was none.
    [[nodiscard]] const std::string& violation() const { return violation_; }

  private:
    struct Stream {
        bool has_begun = false;
        std::uint64_t timestamp = 0;  // the end of the last packet, or the time of a later beacon
        std::uint64_t sequence_number = 0;
        std::uint64_t discarded = 0;
        std::map<std::uint32_t, std::uint64_t> counters{};  // of each writer's last record
    };

    Result<void> check_bounds(Stream& stream, const ctf::PacketHeader& header) const;
    Result<std::uint64_t> check_record(Stream& stream, ByteCursor& in, std::uint64_t timestamp);
    Result<void> check_records(Stream& stream, const consumer::Packet& packet);

    const Ledger* ledger_;
    bool has_children_;
    std::vector<Writer> writers_;
    std::map<consumer::StreamId, Stream> streams_;
    std::string violation_;
};

}  // namespace leat::torture
