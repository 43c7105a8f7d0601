// A model of a capture's blocks: writers, the consumer, and somebody who writes the blocks take random steps, including
// faults. The model knows what must be in the files in the end, and reports anything else. Unit tests draw the steps
// from random numbers, a fuzz target from its input.
#pragma once

#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <fstream>
#include <iterator>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "capture/block_output.hpp"
#include "support/model.hpp"
#include "support/modelled_writers.hpp"
#include "support/scratch_directory.hpp"

namespace leat::test {

class CaptureModel final : private ModelledWriters<WrittenRing> {
  public:
    explicit CaptureModel(Choose choose);

    // Takes one random step.
    void step();
    // Ends the capture without further faults, and checks the files. No step may follow.
    void finish();

    // The first violation, in words; empty if there was none.
    [[nodiscard]] const std::string& violation() const { return violation_; }
    // Counts, to check that the steps achieve something.
    [[nodiscard]] std::uint64_t stored() const { return output_->events(); }
    [[nodiscard]] std::uint64_t lost() const { return output_->lost() + consumer_->totals().left_in_rings; }
    [[nodiscard]] std::uint64_t discarded() const { return consumer_->discarded(); }
    [[nodiscard]] bool is_full() const { return output_->is_full(); }
    [[nodiscard]] bool has_failed() const { return output_->error().has_value(); }

  private:
    // A block that is out.
    struct Held {
        capture::Block* block;
        std::string bytes;  // that were to be written when it was handed out
    };

    [[nodiscard]] static std::string bytes_of(const capture::Block& block);
    [[nodiscard]] std::filesystem::path file(const std::string& name) const {
        return directory_.path() / "trace" / name;
    }
    Result<void> describe();
    void drain(bool has_rest);
    void take_block();
    void write_block();
    void write_whole(std::size_t index);
    void answer(std::size_t index, std::int64_t result);
    void answer_nonsense();
    void check_held() const;
    void check_room(const Held& held);
    void check_files();
    std::uint64_t check_stream(const WrittenRing& ring, const std::string& bytes);
    void check_packet(const WrittenRing& ring, UntrustedBytes records, std::uint64_t& known);

    ScratchDirectory directory_{};
    std::uint64_t max_size_;
    std::string metadata_ = "/* CTF 1.8 */\n";  // that was taken
    bool lacks_metadata_ = false;               // some did not fit
    std::vector<Held> held_{};
    std::unique_ptr<capture::BlockOutput> output_;
    std::unique_ptr<consumer::Consumer> consumer_;
};

inline CaptureModel::CaptureModel(Choose choose) : ModelledWriters(std::move(choose), false) {
    const std::array<std::uint64_t, 4> max_sizes{4096, 20'000, 100'000, ~std::uint64_t{0}};
    const std::array<std::size_t, 3> packet_sizes{ctf::kPacketHeaderSize + 60, 4096, 16384};
    max_size_ = max_sizes[choose_(max_sizes.size())];
    channels_.emplace_back(first_kind_, start_, clock_);
    rings_.reserve(kCpuRings + kThreadRings);
    for (std::uint32_t ring = 0; ring < kCpuRings; ++ring) add_ring(0, ring, start_);
    const std::array<std::uint32_t, 1> cpus{0};
    output_ = *capture::BlockOutput::create(directory_.path() / "trace", "channel0", kCpuRings, cpus, max_size_);
    if (!output_->write_metadata(metadata_)) violate("the first metadata does not fit");
    auto all = sources();
    all[0].max_packet_size = packet_sizes[choose_(packet_sizes.size())];
    consumer_ = std::make_unique<consumer::Consumer>(
        all, *output_,
        consumer::Consumer::Parameters{
            .trace_uuid = {7}, .clock = &clock_, .is_polled = true, .before_cut = [this] { return describe(); }});
}

inline void CaptureModel::step() {
    struct Step {
        std::uint64_t weight;
        void (*take)(CaptureModel&);
    };
    static constexpr std::array kSteps{
        Step{8, [](CaptureModel& model) { model.write_some(); }},
        Step{4, [](CaptureModel& model) { model.drain(model.choose_(3) == 0); }},
        Step{6, [](CaptureModel& model) { model.take_block(); }},
        Step{6, [](CaptureModel& model) { model.write_block(); }},
        Step{4, [](CaptureModel& model) { model.move_clock(); }},
        Step{3, [](CaptureModel& model) { model.write_late(); }},
        Step{1, [](CaptureModel& model) { model.claim_ring(); }},
        Step{1, [](CaptureModel& model) { model.kill_writer(); }},
        Step{1, [](CaptureModel& model) { model.discard(); }},
        Step{1, [](CaptureModel& model) { model.answer_nonsense(); }},
    };
    ++steps_;
    any_of(kSteps).take(*this);
    check_held();
}

inline std::string CaptureModel::bytes_of(const capture::Block& block) {
    int count = 0;
    const auto parts = block.parts(count);
    std::string bytes;
    for (int i = 0; i < count; ++i) {
        const iovec& part = parts[static_cast<std::size_t>(i)];
        bytes.append(static_cast<const char*>(part.iov_base), part.iov_len);
    }
    return bytes;
}

// New events, now and then.
inline Result<void> CaptureModel::describe() {
    if (!is_one_in(8)) return {};
    const std::string unit(choose_(300) + 1, static_cast<char>('a' + choose_(26)));
    auto written = output_->write_metadata(unit);
    if (written)
        metadata_ += unit;
    else
        lacks_metadata_ = true;
    return written;
}

inline void CaptureModel::drain(bool has_rest) {
    consumer_->cut_full_packets_only(!has_rest);
    const bool is_drained = consumer_->drain().has_value();
    if (!is_drained && !output_->is_full() && !output_->error()) violate("a drain fails, and nobody says why");
}

inline void CaptureModel::take_block() {
    capture::Block* const block = output_->hand_out();
    if (block == nullptr) return;
    const bool is_behind_metadata = std::ranges::any_of(
        held_, [block](const Held& held) { return held.block->is_metadata && held.block->number < block->number; });
    if (is_behind_metadata) violate("block {} is handed out before the metadata is stored", block->number);
    if (output_->error()) violate("block {} is handed out after an error", block->number);
    held_.push_back({block, bytes_of(*block)});
}

inline void CaptureModel::write_block() {
    if (held_.empty()) return;
    const std::size_t index = choose_(held_.size());
    switch (choose_(16)) {
        case 0:
            return answer(index, -EINTR);
        case 1:
            return answer(index, -EAGAIN);
        case 2:
            return is_one_in(8) ? answer(index, -ENOSPC) : write_whole(index);
        case 3:
        case 4:
        case 5: {
            const Held& held = held_[index];
            const std::size_t size = choose_(held.bytes.size() + 1);
            const auto offset = static_cast<off_t>(held.block->offset + held.block->written);
            if (::pwrite(output_->fd_of(*held.block), held.bytes.data(), size, offset) != static_cast<ssize_t>(size))
                violate("the disk is full");
            return answer(index, static_cast<std::int64_t>(size));
        }
        default:
            return write_whole(index);
    }
}

inline void CaptureModel::write_whole(std::size_t index) {
    const Held& held = held_[index];
    const auto offset = static_cast<off_t>(held.block->offset + held.block->written);
    const auto size = static_cast<ssize_t>(held.bytes.size());
    if (::pwrite(output_->fd_of(*held.block), held.bytes.data(), held.bytes.size(), offset) != size)
        violate("the disk is full");
    answer(index, size);
}

inline void CaptureModel::answer(std::size_t index, std::int64_t result) {
    const std::uint64_t number = held_[index].block->number;
    held_.erase(held_.begin() + static_cast<std::ptrdiff_t>(index));
    if (!output_->written(number, result)) violate("block {} is not known", number);
    if (output_->written(number, 1)) violate("block {} is written twice", number);
    (void)consumer_->release_stored();
}

// Of a program that mixes up its blocks.
inline void CaptureModel::answer_nonsense() {
    if (output_->written(choose_(3) == 0 ? 0 : ~choose_(1000), 1)) violate("a block that is not there is written");
    if (held_.empty() || !is_one_in(32)) return;
    answer(0, static_cast<std::int64_t>(held_[0].bytes.size() + 1));
    if (!output_->error()) violate("more than there is was written");
}

// Nobody writes where a block lies.
inline void CaptureModel::check_held() const {
    for (const Held& held : held_)
        if (bytes_of(*held.block) != held.bytes)
            return const_cast<CaptureModel*>(this)->violate("block {} has changed", held.block->number);  // NOLINT
    for (const Held& held : held_) const_cast<CaptureModel*>(this)->check_room(held);                     // NOLINT
}

// Nor may anybody: it is not room again.
inline void CaptureModel::check_room(const Held& held) {
    if (held.block->rest.empty()) return;
    const WrittenRing& ring = *find(held.block->stream);
    const auto at = static_cast<std::uint64_t>(reinterpret_cast<const char*>(held.block->rest.data()) -  // NOLINT
                                               ring.bytes_at(0, kSize));
    const std::uint64_t position = ring.header->head - ((ring.header->head - at) & (kSize - 1));
    if (ring.header->tail > position)
        violate("{}: room up to {}, and block {} at {} is not stored", name_of(ring), ring.header->tail,
                held.block->number, position);
}

inline void CaptureModel::finish() {
    const auto write_all = [this] {
        for (take_block(); !held_.empty(); take_block()) write_whole(choose_(held_.size()));
    };
    do {
        drain(true);
        write_all();
    } while (consumer_->is_blocked() && !output_->is_full() && !output_->error() && violation_.empty());
    if (!consumer_->finish() && !lacks_metadata_ && !output_->error()) violate("the last counts do not fit");
    write_all();
    if (!output_->is_delivered()) violate("blocks are left");
    output_->close();
    check_files();
}

inline void CaptureModel::check_files() {
    std::uint64_t committed = 0;
    std::uint64_t dropped = 0;
    for (const WrittenRing& ring : rings_) {
        committed += ring.committed;
        dropped += ring.discarded;
    }
    if (committed != stored() + lost())
        violate("{} committed, {} stored, {} lost and {} left in rings{}", committed, stored(), output_->lost(),
                consumer_->totals().left_in_rings, output_->error() ? ", after an error" : "");
    if (dropped != discarded()) violate("{} discarded, {} told", dropped, discarded());

    const auto read = [this](const std::string& name) {
        std::ifstream stream(file(name), std::ios::binary);
        return std::string(std::istreambuf_iterator<char>(stream), {});
    };
    const std::string metadata = read("metadata");
    if (output_->error() ? !metadata_.starts_with(metadata) : metadata != metadata_)
        violate("metadata of {} bytes, not {}", metadata.size(), metadata_.size());
    std::uint64_t bytes = metadata.size();
    std::uint64_t events = 0;
    for (const WrittenRing& ring : rings_) {
        const std::string stream = read(fmt::format("channel0_{}", ring.id.ring));
        bytes += stream.size();
        events += check_stream(ring, stream);
    }
    if (bytes > max_size_ || bytes != output_->bytes())
        violate("{} bytes, {} are told, {} may be", bytes, output_->bytes(), max_size_);
    if (events != stored()) violate("{} events in files, {} stored", events, stored());
}

// Whole packets, and what they tell. Returns its events.
inline std::uint64_t CaptureModel::check_stream(const WrittenRing& ring, const std::string& bytes) {
    const auto field = [&](std::size_t at) {
        std::uint64_t value = 0;
        std::memcpy(&value, bytes.data() + at, sizeof value);
        return value;
    };
    std::uint64_t known = 0;
    std::uint64_t told = 0;
    std::uint64_t number = 0;
    for (std::size_t at = 0; at < bytes.size() && violation_.empty(); ++number) {
        if (bytes.size() - at < ctf::kPacketHeaderSize) {
            violate("{}: ends in a packet's header", name_of(ring));
            break;
        }
        const std::size_t size = field(at + 48) / 8;
        if (field(at) << 32 >> 32 != ctf::kPacketMagic || size < ctf::kPacketHeaderSize || size > bytes.size() - at) {
            violate("{}: no packet at {}", name_of(ring), at);
            break;
        }
        if (field(at + 64) != number) violate("{}: packet {} comes as {}", name_of(ring), field(at + 64), number);
        told = field(at + 72);
        const auto* const begin = reinterpret_cast<const std::byte*>(bytes.data()) + at;  // NOLINT
        check_packet(ring, UntrustedBytes(begin, size).subspan(ctf::kPacketHeaderSize), known);
        at += size;
    }
    if (told > ring.discarded || (!output_->error() && !lacks_metadata_ && told != ring.discarded))
        violate("{}: {} discarded, the packets tell of {}", name_of(ring), ring.discarded, told);
    return known;
}

// The next records, as they were written.
inline void CaptureModel::check_packet(const WrittenRing& ring, UntrustedBytes records, std::uint64_t& known) {
    while (!records.empty() && violation_.empty()) {
        if (known == ring.pending.size()) return violate("{}: a record that nobody wrote", name_of(ring));
        const WrittenRing::Record& record = ring.pending[known];
        const std::size_t size = record.end - record.position;
        const DecodedHeader header = decode_header(channel_of(ring).layout, records, 0);
        const auto* const payload = reinterpret_cast<const char*>(records.data()) + record.header_size();  // NOLINT
        if (records.size() < size || header.id != record.id ||
            std::string_view(payload, record.payload.size()) != record.payload)
            return violate("{}: record {} is not what was written", name_of(ring), known);
        records = records.subspan(size);
        ++known;
    }
}

}  // namespace leat::test
