// Slots of sticky values in which every byte is hostile. What the daemon replays of them is records that the consumer
// can read, and no ring is given up because of them.
//
// Input: a list of slots. Each: its place, how its numbers differ from good ones, its payload.
#include <sys/mman.h>
#include <unistd.h>

#include <memory>
#include <utility>
#include <vector>

#include "base/check.hpp"
#include "base/file.hpp"
#include "fuzz_input.hpp"
#include "host/recording.hpp"
#include "session/session.hpp"
#include "session/sticky_replay.hpp"

namespace leat::fuzz::sticky_values {
namespace {

using wire::FieldShape;
using wire::StickySlot;

// The last one is switched on nowhere.
constexpr std::uint32_t kTracepoints = 5;
constexpr wire::ControlLayout kLayout{
    .tracepoint_count = kTracepoints, .descriptions_size = 0, .sticky_slots = wire::kStickySlots};

// What a record of the channel may look like.
class CheckingOutput final : public consumer::Output {
  public:
    explicit CheckingOutput(const session::Trace& trace) : trace_(&trace) {}

    Result<void> write_metadata(std::string_view /*unit*/) override { return {}; }
    Result<void> write_packet(const consumer::Packet& packet) override {
        // A copy in memory of its own, so that a step beyond its end is noticed.
        const std::vector<std::byte> records(packet.records.begin(), packet.records.end());
        const auto walked = trace_->channels().at(packet.stream.channel)->walker().walk(records);
        LEAT_CHECK(walked.bytes == records.size() && walked.records == packet.events);
        return {};
    }

  private:
    const session::Trace* trace_;
};

std::shared_ptr<const session::Tracepoints> make_tracepoints() {
    using wire::FieldDescription;
    const auto event = [](const char* name, std::vector<FieldDescription> fields) {
        return wire::TracepointDescription{.name = name, .fields = std::move(fields)};
    };
    const FieldDescription number{.name = "n", .element_size = 4};
    const FieldDescription text{.name = "s", .shape = FieldShape::kString};
    const FieldDescription sequence{.name = "v", .shape = FieldShape::kSequence, .element_size = 8, .length_size = 8};
    const FieldDescription array{.name = "a", .shape = FieldShape::kArray, .element_size = 2, .count = 30};
    const FieldDescription characters{
        .name = "t", .shape = FieldShape::kTextSequence, .element_size = 1, .length_size = 2};
    return std::make_shared<const session::Tracepoints>(session::Tracepoints{
        event("fuzz:nothing", {}), event("fuzz:texts", {text, number, characters}), event("fuzz:sequence", {sequence}),
        event("fuzz:array", {number, array}), event("fuzz:off", {number})});
}

// Making a trace takes 2 ms, because its clock is measured. So one is used for all runs.
class Replaying {
  public:
    Replaying() : trace_(make_trace()) {
        recording_ = *host::Recording::create(*trace_, std::make_unique<CheckingOutput>(*trace_), {});
        LEAT_CHECK(::ftruncate(program_.control.get(), static_cast<off_t>(kLayout.size())) == 0);
        const session::Application application{.tracepoints = make_tracepoints()};
        for (const auto& channel : trace_->channels())
            for (std::uint32_t i = 0; i + 1 < kTracepoints; ++i) {
                const auto enrolled = channel->enroll(application, i, session::OnConflict::kRefuse);
                LEAT_CHECK(enrolled.id != wire::kNotEnabled);
                program_.orders[i].push_back({enrolled.id, channel->number()});
            }
    }

    void put(std::uint32_t index, const StickySlot& slot) {
        LEAT_CHECK(::pwrite(program_.control.get(), &slot, sizeof slot, static_cast<off_t>(kLayout.sticky(index))) ==
                   static_cast<ssize_t>(sizeof slot));
        used_.push_back(index);
    }

    // Afterwards, all slots are empty.
    void run() {
        const std::uint64_t events = recording_->consumer().totals().events;
        const auto replayed = session::replay_sticky_values(
            *trace_, [this] { recording_->drain(); }, program_);
        recording_->drain();
        LEAT_CHECK(replayed && replayed->records + replayed->refused <= 2 * used_.size());
        LEAT_CHECK(recording_->consumer().totals().events == events + replayed->records);
        LEAT_CHECK(recording_->consumer().quarantined().empty() && recording_->consumer().unreadable() == 0);
        LEAT_CHECK(recording_->warnings().empty());
        for (const std::uint32_t index : std::exchange(used_, {})) put(index, {});
        used_.clear();
    }

  private:
    static std::unique_ptr<session::Trace> make_trace() {
        session::Contexts all(wire::kAllContexts & ~wire::kContextApp);
        all.of_application = {"fuzz:one", "fuzz:other"};
        const session::Channel plain{.name = "plain", .ring_size = ring::kMinRingSize};
        const session::Channel rich{
            .name = "rich", .header = ring::HeaderKind::kLarge, .contexts = all, .ring_size = ring::kMinRingSize};
        return *session::Trace::create({.session_name = "fuzz", .key = {}}, std::vector{plain, rich});
    }

    std::unique_ptr<session::Trace> trace_;
    std::unique_ptr<host::Recording> recording_;
    session::StickyProgram program_{.control = UniqueFd(::memfd_create("control", MFD_CLOEXEC)),
                                    .layout = kLayout,
                                    .name = "fuzz (1)",
                                    .vpid = 1,
                                    .procname = "a-name-of-fifteen-characters-or-more"};
    std::vector<std::uint32_t> used_{};
};

// Mostly one that is whole, as nothing else gets any further.
StickySlot take_slot(FuzzInput& input) {
    StickySlot slot{};
    slot.sequence = input.take<std::uint8_t>() + 2U;
    slot.tracepoint = input.take<std::uint8_t>() % (kTracepoints + 2U);
    if (slot.tracepoint == kTracepoints + 1) slot.tracepoint = wire::kNoTracepoint;
    slot.order = input.take<std::uint32_t>();
    const UntrustedBytes payload = input.take_bytes(input.take<std::uint16_t>() % (wire::kStickyPayload + 1));
    if (!payload.empty()) std::memcpy(slot.payload, payload.data(), payload.size());
    slot.size = static_cast<std::uint32_t>(payload.size()) + input.take<std::uint8_t>();
    return slot;
}

}  // namespace

LEAT_FUZZ_TARGET(sticky_values) {
    static Replaying replaying;
    FuzzInput input(data, size);
    while (!input.is_empty()) {
        const std::uint32_t index = input.take<std::uint8_t>() % wire::kStickySlots;
        replaying.put(index, take_slot(input));
    }
    replaying.run();
    return 0;
}

}  // namespace leat::fuzz::sticky_values
