#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <utility>

namespace leat::relay {

// Memory for datagrams that wait, shared fairly: each stream and each session has a limit, and so have all together.
// Where one is exceeded, the stream pays that holds most, of the session that holds most. So whoever holds no more than
// an equal share never pays for others.
class DatagramBudget {
  public:
    struct Limits {
        std::size_t of_stream = 4U << 20;  // bytes
        std::size_t of_session = 16U << 20;
        std::size_t of_all = 64U << 20;
    };
    DatagramBudget() = default;
    explicit DatagramBudget(const Limits& limits) : limits_(limits) {}

    // What this stream of this session holds now; 0 if nothing, or if it is gone.
    void set(std::uint64_t session, std::uint64_t stream, std::size_t bytes);
    // The stream that has to give something back, now that this one has grown.
    [[nodiscard]] std::optional<std::uint64_t> debtor(std::uint64_t session, std::uint64_t stream) const;
    [[nodiscard]] std::size_t total() const { return all_.bytes; }

  private:
    // Those that hold something.
    struct Group {
        std::size_t bytes = 0;
        std::map<std::uint64_t, std::size_t> members{};
        std::set<std::pair<std::size_t, std::uint64_t>> by_size{};

        void set(std::uint64_t member, std::size_t member_bytes);
        [[nodiscard]] std::size_t of(std::uint64_t member) const;
        [[nodiscard]] std::uint64_t largest() const { return by_size.rbegin()->second; }
    };

    Limits limits_{};
    Group all_;                                // of sessions
    std::map<std::uint64_t, Group> sessions_;  // of their streams
};

}  // namespace leat::relay
