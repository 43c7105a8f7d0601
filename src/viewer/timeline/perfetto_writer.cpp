#include "viewer/timeline/perfetto_writer.hpp"

#include <utility>

#include "base/utf8.hpp"
#include "viewer/sink/found_labels.hpp"

namespace leat::viewer {
namespace {

// Numbers of fields: protos/perfetto/trace/trace.proto, trace_packet.proto, track_event/*.proto.
namespace trace {
constexpr unsigned kPacket = 1;
}
namespace packet {
constexpr unsigned kTimestamp = 8;
constexpr unsigned kSequenceId = 10;
constexpr unsigned kTrackEvent = 11;
constexpr unsigned kSequenceFlags = 13;
constexpr unsigned kTrackDescriptor = 60;
}  // namespace packet
namespace descriptor {
constexpr unsigned kUuid = 1;
constexpr unsigned kName = 2;
constexpr unsigned kProcess = 3;
constexpr unsigned kThread = 4;
constexpr unsigned kParentUuid = 5;
constexpr unsigned kProcessPid = 1;
constexpr unsigned kProcessName = 6;
constexpr unsigned kThreadPid = 1;
constexpr unsigned kThreadTid = 2;
constexpr unsigned kThreadName = 5;
}  // namespace descriptor
namespace track_event {
constexpr unsigned kAnnotations = 4;
constexpr unsigned kType = 9;
constexpr unsigned kTrackUuid = 11;
constexpr unsigned kCategories = 22;
constexpr unsigned kName = 23;
}  // namespace track_event
namespace annotation {
constexpr unsigned kUnsigned = 3;
constexpr unsigned kSigned = 4;
constexpr unsigned kReal = 5;
constexpr unsigned kText = 6;
constexpr unsigned kName = 10;
constexpr unsigned kMembers = 11;
constexpr unsigned kElements = 12;
}  // namespace annotation

constexpr std::uint64_t kSequence = 1;
constexpr std::uint64_t kStateCleared = 1;

std::uint64_t type_of(Phase phase) { return phase == Phase::kBegin ? 1 : phase == Phase::kEnd ? 2 : 3; }

// Walks the values of a scope from front to back.
class Annotations {
  public:
    explicit Annotations(std::span<const ctf::FieldValue> values) : value_(values.data()) {}

    // Of a struct: its members become messages of this field.
    void members(ProtobufMessage& parent, unsigned field) {
        const ctf::FieldValue& scope = *value_++;
        for (std::uint32_t i = 0; i < scope.size; ++i) {
            ProtobufMessage member;
            member.text(annotation::kName, value_->name);
            value(member);
            parent.message(field, member);
        }
    }

  private:
    void value(ProtobufMessage& message) {
        const ctf::FieldValue& value = *value_;
        const ctf::FieldClass* const field_class = value.field_class;
        if (value.is_text)
            text(message);
        else if (const auto* integer = field_class->as<ctf::IntegerClass>())
            number(message, integer->is_signed);
        else if (const auto* enumeration = field_class->as<ctf::EnumClass>())
            labelled(message, *enumeration);
        else if (field_class->as<ctf::FloatClass>() != nullptr)
            message.real(annotation::kReal, value_++->real);
        else if (field_class->as<ctf::StructClass>() != nullptr)
            members(message, annotation::kMembers);
        else if (field_class->as<ctf::VariantClass>() != nullptr)
            option(message);
        else
            elements(message);
    }

    void text(ProtobufMessage& message) {
        message.text(annotation::kText, to_utf8({value_->text, value_->size}));
        ++value_;
    }
    void number(ProtobufMessage& message, bool is_signed) {
        message.number(is_signed ? annotation::kSigned : annotation::kUnsigned, value_++->number);
    }
    void labelled(ProtobufMessage& message, const ctf::EnumClass& enumeration) {
        const FoundLabels found(value_->number, enumeration);
        if (found.labels().size() != 1 || enumeration.is_bit_map)
            return number(message, enumeration.container.is_signed);
        message.text(annotation::kText, to_utf8(enumeration.ranges[found.labels().front()].label));
        ++value_;
    }
    void option(ProtobufMessage& message) {
        const bool has_value = value_++->size != 0;
        if (has_value) value(message);
    }
    void elements(ProtobufMessage& message) {
        const std::uint32_t count = value_++->size;
        for (std::uint32_t i = 0; i < count; ++i) {
            ProtobufMessage element;
            value(element);
            message.message(annotation::kElements, element);
        }
    }

    const ctf::FieldValue* value_;
};

ProtobufMessage descriptor_of(const Track& track) {
    ProtobufMessage described;
    described.number(descriptor::kUuid, track.id);
    if (track.process != 0) described.number(descriptor::kParentUuid, track.process);
    const std::string name = to_utf8(track.name);
    if (track.kind == Track::Kind::kProcess) {
        ProtobufMessage process;
        process.number(descriptor::kProcessPid, track.pid);
        process.text(descriptor::kProcessName, name);
        described.message(descriptor::kProcess, process);
    } else if (track.kind == Track::Kind::kThread) {
        ProtobufMessage thread;
        thread.number(descriptor::kThreadPid, track.pid);
        thread.number(descriptor::kThreadTid, track.tid);
        thread.text(descriptor::kThreadName, name);
        described.message(descriptor::kThread, thread);
    } else {
        described.text(descriptor::kName, name);
    }
    return described;
}

}  // namespace

void PerfettoWriter::track(const Track& track) {
    ProtobufMessage packet;
    packet.message(packet::kTrackDescriptor, descriptor_of(track));
    append_packet(std::move(packet));
}

void PerfettoWriter::event(const Track& track, Phase phase, std::int64_t time_ns, std::string_view title,
                           const ctf::EventRecord* event) {
    ProtobufMessage shown;
    shown.number(track_event::kType, type_of(phase));
    shown.number(track_event::kTrackUuid, track.id);
    if (phase != Phase::kEnd) {
        shown.text(track_event::kCategories, "leat");
        shown.text(track_event::kName, to_utf8(title));
    }
    if (event != nullptr && !event->fields.empty())
        Annotations(event->fields).members(shown, track_event::kAnnotations);
    ProtobufMessage packet;
    // Times are unsigned there. Those before 1970 are told from the first event on.
    if (!std::exchange(has_events_, true) && time_ns < 0) origin_ns_ = time_ns;
    packet.number(packet::kTimestamp, static_cast<std::uint64_t>(time_ns) - static_cast<std::uint64_t>(origin_ns_));
    packet.message(packet::kTrackEvent, shown);
    append_packet(std::move(packet));
}

void PerfettoWriter::append_packet(ProtobufMessage packet) {
    packet.number(packet::kSequenceId, kSequence);
    if (!std::exchange(has_packets_, true)) packet.number(packet::kSequenceFlags, kStateCleared);
    ProtobufMessage whole;
    whole.message(trace::kPacket, packet);
    buffer_.append(whole.bytes());
}

}  // namespace leat::viewer
