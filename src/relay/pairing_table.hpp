#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <optional>
#include <vector>

#include "base/result.hpp"
#include "wire/relay_messages.hpp"

namespace leat::relay {

using Time = std::chrono::steady_clock::time_point;

// Where the data of a packet was put.
struct StoredData {
    std::uint64_t file_number;
    std::uint64_t offset;  // bytes
    std::uint64_t size;    // bytes, padding included
};

// Index and data of a packet come on two connections, in either order, and wait here for one another, by sequence
// number. They leave in the order of their numbers, as pairs, or as lost.
//
// Whoever sends in order (a TCP connection) shows by a later number that an earlier one will not come any more;
// otherwise (datagrams) age tells. What waits is bounded by age and count. (document 000, "Index streaming")
class PairingTable {
  public:
    // How data comes. Indexes always come in order.
    enum class Transport : std::uint8_t { kStream, kDatagrams };
    explicit PairingTable(Transport transport) : is_data_ordered_(transport == Transport::kStream) {}

    static constexpr std::size_t kMaxWaiting = 4096;
    // A packet may be long on its way through a slow connection; a datagram is there soon, or not at all.
    static constexpr std::chrono::seconds kMaxAge{600};
    static constexpr std::chrono::seconds kMaxAgeOfDatagrams{1};

    // Fails if the number has been there already, or is too far from those before.
    Result<void> add_index(const wire::SendIndex& index, Time now);
    Result<void> add_data(std::uint64_t number, const StoredData& data, Time now);

    // No data, or no index, will come any more.
    void end_data() { has_data_ended_ = true; }
    void end_indexes() { have_indexes_ended_ = true; }
    [[nodiscard]] bool have_indexes_ended() const { return have_indexes_ended_; }

    struct Outcome {
        std::uint64_t number = 0;
        std::optional<wire::SendIndex> index{};
        std::optional<StoredData> data{};

        [[nodiscard]] bool is_lost() const { return !index || !data; }
    };
    // The next packet about which all is known; then it is forgotten.
    std::optional<Outcome> take(Time now);

    [[nodiscard]] bool empty() const { return waiting_.empty(); }
    // Whether an index waits for data that may still come.
    [[nodiscard]] bool waits_for_data() const;
    // All packets up to and including this one have been taken. Numbers are compared by their distance: -1 is before 0.
    [[nodiscard]] bool is_past(std::uint64_t number) const;
    // All data that waits, oldest first, for those who must move it.
    std::vector<StoredData*> all_data();

  private:
    struct Waiting {
        std::optional<wire::SendIndex> index{};
        std::optional<StoredData> data{};
        Time since{};
    };

    Result<Waiting*> entry(std::uint64_t number, Time now);
    [[nodiscard]] bool is_hopeless(std::uint64_t number, const Waiting& waiting, Time now) const;

    bool is_data_ordered_;
    bool has_data_ended_ = false;
    bool have_indexes_ended_ = false;
    std::map<std::uint64_t, Waiting> waiting_;
    std::optional<std::uint64_t> next_{};        // number to be taken next
    bool has_taken_ = false;                     // until then, an earlier number may still turn up
    std::optional<std::uint64_t> last_index_{};  // highest number of an index so far
    std::optional<std::uint64_t> last_data_{};   // and of data
};

}  // namespace leat::relay
