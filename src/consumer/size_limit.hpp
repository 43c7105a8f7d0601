// How much a recording may store.
#pragma once

#include <algorithm>
#include <cstdint>
#include <utility>

namespace leat::consumer {

// Of all traces of a session together, bytes of packets with their headers, however often one goes over the wire.
//
//     | used | room | kept |
//     0                   max
//
// `kept` is for what comes last: of each stream a packet without records, which tells what was discarded. One that
// comes when others have all takes of theirs, as not each has something to tell. One thread.
class SizeLimit {
  public:
    static constexpr std::uint64_t kNone = ~std::uint64_t{0};

    // `used`: by who went before.
    explicit SizeLimit(std::uint64_t max = kNone, std::uint64_t used = 0) : max_(max), used_(std::min(max, used)) {}

    // `own`: of what is kept, for who asks.
    [[nodiscard]] std::uint64_t room(std::uint64_t own = 0) const {
        const std::uint64_t left = max_ - used_;
        return left - std::min(left, kept_ - own);
    }
    // Whether to keep so much for who may never need it: an eighth in all.
    [[nodiscard]] bool can_spare(std::uint64_t size) const { return kept_ + size <= max_ / 8 && size <= room(); }
    [[nodiscard]] bool has_room_at_the_end(std::uint64_t size) const { return size <= max_ - used_; }
    void use(std::uint64_t size) { used_ += size; }
    [[nodiscard]] std::uint64_t used() const { return used_; }

    // Something did not fit. From then on, nothing but what comes last does, so that no later event gets in.
    void reach() { is_reached_ = true; }
    [[nodiscard]] bool is_reached() const { return is_reached_; }

    // Room that is kept as long as this is there.
    class Kept {
      public:
        explicit Kept(SizeLimit* limit) : limit_(limit) {}
        ~Kept() {
            if (limit_ != nullptr) limit_->kept_ -= size_;
        }
        Kept(Kept&& other) noexcept : limit_(std::exchange(other.limit_, nullptr)), size_(other.size_) {}
        Kept(const Kept&) = delete;
        Kept& operator=(const Kept&) = delete;
        Kept& operator=(Kept&&) = delete;

        void add(std::uint64_t size) {
            if (limit_ == nullptr) return;
            limit_->kept_ += size;
            size_ += size;
        }

        void remove(std::uint64_t size) {
            if (limit_ == nullptr) return;
            limit_->kept_ -= size;
            size_ -= size;
        }

      private:
        SizeLimit* limit_;  // outlives this; null: there is none
        std::uint64_t size_ = 0;
    };

  private:
    std::uint64_t max_;
    std::uint64_t used_;
    std::uint64_t kept_ = 0;
    bool is_reached_ = false;
};

}  // namespace leat::consumer
