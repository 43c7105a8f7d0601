"""The metadata of CTF 2 for the traces of ctf_random.py: the bytes of their packets are the same in both versions."""
import json
import struct

from ctf_fields import Array, Enum, Float, Integer, String, Struct, Variant
from ctf_random import METADATA_MAGIC

SEPARATOR = "\x1e"

ORIGINS = {"trace.packet.header": "packet-header", "stream.packet.context": "packet-context",
           "stream.event.header": "event-record-header", "stream.event.context": "event-record-common-context",
           "event.context": "event-record-specific-context", "event.fields": "event-record-payload"}
HEADER_ROLES = {"magic": "packet-magic-number", "stream_id": "data-stream-class-id",
                "stream_instance_id": "data-stream-id"}
CONTEXT_ROLES = {"timestamp_begin": "default-clock-timestamp", "timestamp_end": "packet-end-default-clock-timestamp",
                 "packet_size": "packet-total-length", "content_size": "packet-content-length",
                 "packet_seq_num": "packet-sequence-number",
                 "events_discarded": "discarded-event-record-counter-snapshot"}
LOG_LEVELS = ["emergency", "alert", "critical", "error", "warning", "notice", "info", "debug:system", "debug:program",
              "debug:process", "debug:module", "debug:unit", "debug:function", "debug:line", "debug"]


def integer(length, kind="unsigned", **properties):
    return {"type": f"fixed-length-{kind}-integer", "length": length, "byte-order": "little-endian", "alignment": 8,
            **properties}


def structure(*members, **properties):
    """`members`: (name, field class)."""
    return {"type": "structure", "member-classes": [{"name": name, "field-class": kind} for name, kind in members],
            **properties}


def fragments(*declarations):
    return "".join(f"{SEPARATOR}{json.dumps(declaration, ensure_ascii=False)}\n" for declaration in declarations).encode()


def packetized(text, uuid=bytes(16), is_full=False, size=300):
    """In packets, as LTTng writes them, or with the full header of CTF2-PMETA-1.0."""
    header_size = 44 if is_full else 37
    data = b""
    for begin in range(0, len(text), size):
        piece = text[begin:begin + size]
        data += struct.pack("<I16sIIIBBBBB", METADATA_MAGIC, uuid, 0, 8 * (header_size + len(piece)),
                            8 * (header_size + len(piece) + 3), 0, 0, 0, 2, 0)
        data += struct.pack("<3xI", 8 * header_size) * is_full + piece + bytes(3)
    return data


def is_character(field):
    if isinstance(field, Enum):
        field = field.container
    return isinstance(field, Integer) and field.size == 8 and field.alignment == 8 and field.encoding


class Scope:
    """Makes the field class of one scope. Lengths and tags are named as seldom as possible by their whole path."""

    def __init__(self, prefix):
        self.prefix = prefix
        self.frames = []  # the names of the structs around, as far as they are made

    def convert(self, field, name=None):
        return getattr(self, type(field).__name__.lower())(field, name)

    def role(self, field, name):
        is_at_top = len(self.frames) == 1
        if self.prefix == "trace.packet.header" and is_at_top:
            return HEADER_ROLES.get(name)
        if self.prefix == "stream.packet.context" and is_at_top:
            return CONTEXT_ROLES.get(name)
        if self.prefix == "stream.event.header":
            return "event-record-class-id" if name == "id" else "default-clock-timestamp" if field.clock else None
        return None

    def integer(self, field, name):
        made = integer(field.size, "signed" if field.is_signed else "unsigned",
                       **{"byte-order": "big-endian" if field.is_big else "little-endian",
                          "alignment": field.alignment, "preferred-display-base": field.base})
        role = self.role(field, name)
        return {**made, "roles": [role]} if role else made

    def enum(self, field, name):
        mappings = {}
        for label, low, high in field.ranges:
            mappings.setdefault(label.decode(), []).append([low, high])
        return {**self.integer(field.container, name), "mappings": mappings}

    def float(self, field, _name):
        return {"type": "fixed-length-floating-point-number", "length": field.size,
                "byte-order": "big-endian" if field.is_big else "little-endian", "alignment": field.alignment}

    def string(self, _field, _name):
        return {"type": "null-terminated-string"}

    def array(self, field, name):
        kind = "static" if field.path is None else "dynamic"
        length = {"length": field.length} if field.path is None else {"length-field-location": self.location(field.path)}
        if name == "uuid" and self.prefix == "trace.packet.header":
            return {"type": "static-length-blob", "length": 16, "roles": ["metadata-stream-uuid"]}
        if is_character(field.element):
            return {"type": f"{kind}-length-string", **length}
        return {"type": f"{kind}-length-array", "element-field-class": self.convert(field.element), **length}

    def struct(self, field, _name):
        members = []
        self.frames.append(set())
        for name, member in field.members:
            members.append((name.removeprefix("_"), self.convert(member, name)))
            self.frames[-1].add(name)
        self.frames.pop()
        return structure(*members, **{"minimum-alignment": field.minimum_alignment})

    def variant(self, field, _name):
        ranges = {}
        for label, low, high in field.tag.ranges:
            ranges.setdefault(label.decode(), []).append([low, high])
        options = [{"name": name.removeprefix("_"), "selector-field-ranges": ranges[name],
                    "field-class": self.convert(option)} for name, option in field.options]
        return {"type": "variant", "options": options, "selector-field-location": self.location(field.path)}

    def location(self, path):
        for prefix, origin in ORIGINS.items():
            if path.startswith(prefix + "."):
                names = path.removeprefix(prefix + ".").split(".")
                return {"origin": origin, "path": [name.removeprefix("_") for name in names]}
        names = path.split(".")
        up = next(up for up, frame in enumerate(reversed(self.frames)) if names[0] in frame)
        return {"path": [None] * up + [name.removeprefix("_") for name in names]}


def of_scopes(**scopes):
    """The properties of those that exist; `scopes`: (prefix, struct)."""
    return {name.replace("_", "-") + "-field-class": Scope(prefix).convert(made)
            for name, (prefix, made) in scopes.items() if made is not None}


def clock_class(clock):
    seconds, cycles = divmod(clock.offset, clock.frequency)
    made = {"type": "clock-class", "id": clock.name, "frequency": clock.frequency,
            "offset-from-origin": {"seconds": clock.offset_s + seconds, "cycles": cycles}}
    if clock.uuid:
        made["uid"] = str(clock.uuid)
    return {**made, "origin": "unix-epoch"} if clock.is_absolute else made


def has_times(stream_class):
    """With a clock, events of CTF 2 have times even if no field says so."""
    context = stream_class.packet_context or ()
    return stream_class.time_field is not None or "timestamp_begin" in context or "timestamp_end" in context


def number_of(stream_class):
    return stream_class.number if stream_class.has_number else 0


def event_class(stream_class, event):
    attributes = {}
    if event.log_level is not None:
        attributes["log-level"] = LOG_LEVELS[event.log_level]
    if event.model_uri:
        attributes["emf-uri"] = event.model_uri
    return {"type": "event-record-class", "id": event.number, "data-stream-class-id": number_of(stream_class),
            "name": event.name.decode(), "attributes": {"lttng.org,2009": attributes},
            **of_scopes(specific_context=("event.context", event.context), payload=("event.fields", event.fields))}


def metadata(trace):
    """The text, in bytes."""
    preamble = {"type": "preamble", "version": 2}
    if trace.uuid:
        preamble["uuid"] = list(trace.uuid.bytes)
    made = [preamble, {"type": "trace-class", "environment": trace.environment_values,
                       **of_scopes(packet_header=("trace.packet.header", trace.header))}]
    made += [clock_class(clock) for clock in trace.clocks]
    for stream_class in trace.stream_classes:
        clock = {"default-clock-class-id": stream_class.clock.name} if has_times(stream_class) else {}
        made.append({"type": "data-stream-class", "id": number_of(stream_class), **clock, **of_scopes(
            packet_context=("stream.packet.context", stream_class.packet_context),
            event_record_header=("stream.event.header", stream_class.header),
            event_record_common_context=("stream.event.context", stream_class.event_context))})
        made += [event_class(stream_class, event) for event in stream_class.events]
    return fragments(*made)
