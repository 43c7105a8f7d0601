"""Valid traces of CTF 1.8, made by chance from a number: the metadata and the stream files come from one model."""
import pathlib
import random as random_module
import struct
import uuid as uuid_module

from ctf_fields import (Array, BitWriter, Enum, Float, Integer, NotValid, String, Struct, Tsdl, Variant, quoted)

MAGIC = 0xC1FC1FC1
METADATA_MAGIC = 0x75D11D57
INDEX_MAGIC = 0xC1F1DCC1
INDEX_ENTRY_SIZE = 72
SECOND = 1_000_000_000

WORDS = ("a b c x y z len count flags name value id timestamp v stream_id cpu_id packet_size magic uuid data "
         "int_ structure enumeration event_ clocks").split()
CONTEXT_NAMES = ("timestamp_begin timestamp_end content_size packet_size packet_seq_num events_discarded "
                 "cpu_id").split()
KEYWORDS = "int struct enum event stream align float string clock variant integer signed".split()


class Fields:
    """Makes the fields of one event class, or of another scope, and knows which fields those that follow may name."""

    def __init__(self, random, is_big, is_calm=False):
        self.random = random
        self.is_big = is_big
        self.has_foreign_bits = random.random() < 0.1
        self.has_small_alignment = random.random() < 0.6
        self.is_calm = is_calm
        self.scopes = []  # (prefix, struct) of those before
        self.frames = []  # the structs that are being made, outermost first
        self.named = set()  # what lengths and tags name: a nearer field of that name would take its place

    def chance(self, probability):
        return self.random.random() < probability

    def scope(self, prefix, most, minimum=0):
        members = []
        made = Struct(members, self.random.choice([1, 1, 1, 1, 8, 16, 32, 64]))
        self.frames = []
        self.named = set()
        self.fill(made, self.random.randint(minimum, most), 0)
        self.scopes.append((prefix, made))
        return made

    def fill(self, made, count, depth):
        self.frames.append(made)
        for _ in range(count):
            field = self.field(depth)
            made.members.append((self.new_name(made), field))
        self.frames.pop()

    def new_name(self, made):
        while True:
            name = self.random.choice(WORDS)
            if self.chance(0.3):
                name = "_" + self.random.choice(KEYWORDS + WORDS)
            if self.chance(0.4):
                name += str(self.random.randint(0, 20))
            if self.chance(0.05):
                name = "__" + name
            # babeltrace2 compares the name as it is shown with those before as they are written.
            taken = self.named | {known for known, _ in made.members}
            taken |= {known.removeprefix("_") for known in taken}
            if name not in taken and name.removeprefix("_") not in taken:
                return name

    def field(self, depth):
        kinds = ["integer"] * 6 + ["enum", "float", "string", "array", "sequence", "text"]
        if depth < 3 and not self.is_calm:
            kinds += ["struct", "array", "sequence", "variant"]
        return getattr(self, self.random.choice(kinds))(depth)

    def order_and_alignment(self, size):
        """Bit-fields of another byte order than the trace's are seldom valid."""
        is_whole = size % 8 == 0
        alignment = self.random.choice([None, None, 1, 2, 4, 8, 8, 16, 32, 64] if self.has_small_alignment
                                       else [None, 8, 8, 8])
        is_at_byte = is_whole and (alignment is None or alignment >= 8)
        is_foreign = (is_at_byte and self.chance(0.2)) or (self.has_foreign_bits and self.chance(0.2))
        return self.is_big != is_foreign, alignment

    def integer(self, _depth=0, **attributes):
        size = self.random.choice([8, 8, 16, 32, 32, 64, 64, self.random.randint(1, 64)])
        is_big, alignment = self.order_and_alignment(size)
        attributes = {"is_signed": self.chance(0.4), "base": self.random.choice([10, 10, 10, 10, 16, 8, 2]),
                      "encoding": "UTF8" if self.chance(0.03) else None, **attributes}
        # babeltrace2 shows all hexadecimal numbers of these sizes as 0.
        if attributes["base"] == 16 and 61 <= size <= 63:
            size = 60
        return Integer(size, is_big, alignment=alignment, **attributes)

    def enum(self, _depth=0):
        container = self.integer()
        low, high = container.limits
        ranges = []
        following = 0
        for _ in range(self.random.choice([1, 3, 5, self.random.randint(1, 40)])):
            begin = self.random.choice([following, self.random.randint(low, high), self.random.randint(-2, 20)])
            end = begin + self.random.choice([0, 0, 1, 7, self.random.randint(0, 1 << container.size - 1)])
            begin, end = max(low, min(high, begin)), max(low, min(high, end))
            ranges.append((self.label(), begin, end))
            following = min(high, end + 1)
        return Enum(container, ranges)

    def label(self):
        if self.chance(0.7):
            return self.random.choice([b"A", b"RED", b"_GREEN", b"struct", b"x1"]) + b"%d" % self.random.randint(0, 99)
        return self.random.choice([b"b c", b"", b"\"q\" \\", "é".encode(), b"a\nb\t?", b"event", b"1st"])

    def float(self, _depth=0):
        size = self.random.choice([32, 64])
        return Float(size, *self.order_and_alignment(size))

    def string(self, _depth=0):
        return String(self.random.choice([None, None, "UTF8", "ASCII"]))

    def text(self, _depth=0):
        character = Integer(8, self.is_big, alignment=8, encoding=self.random.choice(["UTF8", "ASCII"]),
                            is_signed=self.chance(0.2))
        return self.array_or_sequence(character, 30)

    def array(self, depth):
        return Array(self.field(depth + 1), self.random.choice([0, 1, 2, 3]))

    def sequence(self, depth):
        length, path = self.length(4)
        return Array(self.field(depth + 1), length, path)

    def array_or_sequence(self, element, most):
        if self.chance(0.5):
            return Array(element, self.random.randint(0, most))
        return Array(element, *self.length(most))

    def struct(self, depth):
        made = Struct([], self.random.choice([1, 1, 1, 8, 16, 64]))
        self.fill(made, self.random.choice([0, 1, 2, 2, 3]), depth + 1)
        return made

    def length(self, most):
        """A field that holds a length, and how it is named: one before, or a new one."""
        known = [(path, field) for path, field in self.visible()
                 if isinstance(field, Integer) and self.may_be_length(field)]
        if known and self.chance(0.5):
            path, field = self.random.choice(known)
            self.named.add(path.split(".")[0])
        else:
            field = self.integer(is_signed=False)
            path = self.add_before(field)
        if field.choose is None:
            most = min(most, field.limits[1])
            field.choose = lambda random: random.choice([0, 1, most, random.randint(0, most)])
        return field, path

    @staticmethod
    def may_be_length(field):
        return not field.is_signed and not field.is_special

    def variant(self, depth):
        # babeltrace2 does not parse paths of tags.
        known = [(path, field) for path, field in self.visible()
                 if isinstance(field, Enum) and field.tagged and "." not in path]
        if known and self.chance(0.4):
            path, tag = self.random.choice(known)
            self.named.add(path)
        else:
            tag = self.tag()
            path = self.add_before(tag)
        options = [(label, self.field(depth + 1)) for label in tag.tagged]
        self.random.shuffle(options)
        return Variant(tag, path, [(label.decode(), field) for label, field in options])

    def tag(self):
        """An enum whose ranges do not overlap."""
        container = self.integer()
        low, high = container.limits
        count = min(self.random.choice([1, 2, 3, 3, 20]), (high - low + 1) // 2)
        bounds = sorted(self.random.sample(range(max(low, -50), min(high, 100) + 1), max(2, 2 * count)))
        ranges = []
        for begin, end in zip(bounds[::2], bounds[1::2]):
            name = self.random.choice([b"A", b"_opt", b"Some", b"xo"]) + b"%d" % len(ranges)
            ranges.append((name, begin, self.random.choice([begin, end])))
        tag = Enum(container, ranges)
        names = [name for name, _, _ in ranges]
        tag.tagged = names if self.chance(0.7) else self.random.sample(names, self.random.randint(1, min(3, len(names))))
        return tag

    def add_before(self, field):
        """Puts a field before the one that is being made, where that can name it."""
        made = self.frames[-1]
        name = self.new_name(made)
        made.members.append((name, field))
        return name

    def visible(self):
        """The fields before, by the paths that name them."""
        found = []
        hidden = set()
        for made in reversed(self.frames):
            for name, field in made.members:
                if name not in hidden:
                    found += self.paths(name, field)
            hidden |= {name for name, _ in made.members}
        for prefix, made in self.scopes:
            for name, field in made.members:
                found += self.paths(f"{prefix}.{name}", field)
        if self.frames and self.prefix:
            for name, field in self.frames[0].members:
                found += self.paths(f"{self.prefix}.{name}", field)
        return found

    prefix = None

    def paths(self, path, field):
        if isinstance(field, Struct):
            return [found for name, member in field.members for found in self.paths(f"{path}.{name}", member)]
        return [(path, field)]


class Clock:
    def __init__(self, random, name, start_s, is_absolute):
        self.name = name
        self.frequency = random.choice([SECOND] * 4 + [1, 1000, 32768, 1_000_000, 2_594_123_456, 3_300_000_000,
                                                       random.randint(1, 5 * SECOND)])
        self.is_absolute = is_absolute
        self.uuid = any_uuid(random) if random.random() < 0.4 else None
        self.offset_s = start_s
        self.offset = 0
        self.start = random.choice([0, 0, 5, 1 << 20, (1 << 32) - 3, random.getrandbits(50)])
        self.start = min(self.start, self.frequency * 1_000_000_000, 1 << 60)
        self.offset_s -= self.start // self.frequency
        if random.random() < 0.5:
            self.offset = random.choice([1, random.randint(0, self.frequency), random.randint(0, 3 * self.frequency)])
        if random.random() < 0.2 and self.offset_s > 0 and self.offset_s * self.frequency < 1 << 62:
            self.offset += self.offset_s * self.frequency
            self.offset_s = 0

    def tsdl(self, random):
        lines = [f"name = {self.name};"]
        if self.uuid:
            lines.append(f'uuid = "{self.uuid}";')
        if self.frequency != SECOND or random.random() < 0.5:
            lines.append(f"freq = {self.frequency};")
        if self.offset_s or random.random() < 0.5:
            lines.append(f"offset_s = {self.offset_s};")
        if self.offset or random.random() < 0.5:
            lines.append(f"offset = {self.offset};")
        if self.is_absolute or random.random() < 0.3:
            lines.append(f"absolute = {str(self.is_absolute).lower()};")
        if random.random() < 0.3:
            lines.append(f"precision = {random.randint(0, 100)}; description = \"a clock\";")
        random.shuffle(lines)
        return f"clock {{ {' '.join(lines)} }};"


class EventClass:
    def __init__(self, number, name, scopes):
        self.number = number
        self.name = name
        self.context, self.fields = scopes
        self.log_level = None
        self.model_uri = None


class StreamClass:
    """`times`: the field of the event header that holds the time, if there is one; `numbers` likewise the event's id."""

    def __init__(self, number):
        self.number = number
        self.clock = None
        self.packet_context = self.header = self.event_context = None
        self.events = []
        self.has_number = True  # the block says its id


def any_uuid(random):
    return uuid_module.UUID(int=random.getrandbits(128))


class Packet:
    def __init__(self, begin, events, end):
        self.begin = begin
        self.events = events  # (time, event class)
        self.end = end
        self.discarded = 0
        self.number = 0
        self.bytes = b""
        self.content_size = 0  # bits


class Stream:
    def __init__(self, stream_class, instance):
        self.stream_class = stream_class
        self.instance = instance
        self.packets = []

    def has_distinct_begins(self):
        """In nanoseconds, roughly: babeltrace2 may confuse packets that begin at one time and lie in several files."""
        frequency = self.stream_class.clock.frequency
        begins = [packet.begin * SECOND // frequency for packet in self.packets]
        return all(after - before > 2 for before, after in zip(begins, begins[1:]))


class Trace:
    """One trace. `start_s`: when it happens; `is_shared`: its clocks must agree with those of another trace."""

    def __init__(self, random, start_s, is_shared):
        self.random = random
        self.is_big = random.random() < 0.4
        self.uuid = any_uuid(random) if random.random() < 0.85 else None
        self.is_absolute = is_shared or random.random() < 0.5
        count = 0 if random.random() < 0.05 and not is_shared else 1
        if self.is_absolute and random.random() < 0.2:
            count = random.randint(2, 3)
        self.clocks = [Clock(random, random.choice(["mono", "monotonic", "c", "_clk"]) + str(i), start_s,
                             self.is_absolute) for i in range(count)]
        self.stream_classes = []
        self.streams = []
        self.make_header()
        self.make_stream_classes()
        self.make_streams()
        self.encode()
        self.text = self.metadata()

    def chance(self, probability):
        return self.random.random() < probability

    def plain(self, size, **attributes):
        """An integer that stands where a tracer would put it."""
        alignment = self.random.choice([None, 8, 8, size if size in (8, 16, 32, 64) else 1, 1])
        return self.special(Integer(size, self.is_big, alignment=alignment, **attributes))

    @staticmethod
    def special(field):
        """Readers know it by its name: it has no value by chance."""
        field.is_special = True
        return field

    def make_header(self):
        self.several = 1 if self.chance(0.6) else self.random.randint(2, 3)
        self.has_instances = self.chance(0.6)
        members = []
        if self.chance(0.8):
            members.append(("magic", Integer(32, self.is_big, alignment=8)))
        if self.uuid and self.chance(0.6):
            members.append(("uuid", Array(Integer(8, self.is_big, alignment=8), 16)))
        if self.several > 1 or self.chance(0.7):
            members.append(("stream_id", self.plain(self.random.choice([8, 16, 32, 64]))))
        if self.has_instances:
            members.append(("stream_instance_id", self.plain(self.random.choice([8, 16, 32, 64]))))
        self.extra = Integer(32, self.is_big)
        if self.chance(0.1):
            self.extra.choose = lambda random: random.randint(0, 3)
            members.append(("extra", self.extra))
        self.header = Struct(members) if members or self.chance(0.3) else None

    def make_stream_classes(self):
        numbers = self.random.sample([0, 1, 2, 3, 7, 100, 255], self.several)
        for number in numbers:
            stream_class = StreamClass(number)
            stream_class.has_number = self.header is not None and "stream_id" in self.header
            stream_class.clock = self.random.choice(self.clocks) if self.clocks else None
            fields = Fields(self.random, self.is_big, self.chance(0.3))
            if self.header is not None and self.chance(0.3):
                fields.scopes.append(("trace.packet.header", Struct([
                    (name, field) for name, field in self.header.members if name == "extra"])))
            self.make_packet_context(stream_class, fields)
            self.make_events(stream_class, fields)
            self.stream_classes.append(stream_class)

    def is_timed(self):
        """babeltrace2 does not merge streams with and without a time."""
        return {bool(stream_class.time_field or {"timestamp_begin", "timestamp_end"}.intersection(
            name for name, _ in (stream_class.packet_context or Struct([])).members))
            for stream_class in self.stream_classes}

    def mapped(self, size, clock):
        alignment = self.random.choice([None, 8, 8, 64, 1])
        return self.special(Integer(size, self.is_big, alignment=alignment, clock=clock.name))

    def make_packet_context(self, stream_class, fields):
        if self.chance(0.12):
            return
        members = []
        clock = stream_class.clock
        if clock and self.chance(0.8):
            members.append(("timestamp_begin", self.mapped(64, clock)))
            if self.chance(0.9):
                members.append(("timestamp_end", self.mapped(64, clock)))
        if self.chance(0.9):
            members.append(("content_size", self.plain(self.random.choice([32, 64]))))
            if self.chance(0.85):
                members.append(("packet_size", self.plain(self.random.choice([32, 64]))))
        if self.chance(0.5):
            members.append(("packet_seq_num", self.plain(self.random.choice([32, 64]))))
        if self.chance(0.5):
            members.append(("events_discarded", self.plain(self.random.choice([32, 64]))))
        if self.chance(0.5):
            members.append(("cpu_id", self.plain(32)))
        if self.chance(0.2):
            self.random.shuffle(members)
        if self.chance(0.3):
            fields.prefix = None
            more = fields.scope("stream.packet.context", 3)
            if any(name.removeprefix("_") in CONTEXT_NAMES for name, _ in more.members):
                raise NotValid("two fields of one name, or one that means something")
            more.members[:] = members + more.members
            stream_class.packet_context = more
        else:
            stream_class.packet_context = Struct(members)

    def make_events(self, stream_class, fields):
        random = self.random
        self.make_event_header(stream_class)
        count = random.choice([1, 2, 3, 5]) if stream_class.id_field is not None else 1
        highest = stream_class.highest_id
        limit = min(highest + 1, random.choice([count, 40, 1000, 1 << 20]) + count)
        count = min(count, limit)
        numbers = random.sample(range(limit), count)
        if stream_class.header is None or stream_class.id_field is None:
            numbers = [random.choice([0, 3])]
        if self.chance(0.35):
            fields.prefix = "stream.event.context"
            stream_class.event_context = fields.scope("stream.event.context", 3)
        before = list(fields.scopes)
        for number in numbers:
            fields.scopes = list(before)
            context = payload = None
            if self.chance(0.25):
                fields.prefix = "event.context"
                context = fields.scope("event.context", 3)
            if self.chance(0.92):
                fields.prefix = "event.fields"
                payload = fields.scope("event.fields", random.choice([0, 2, 3, 6]))
            event = EventClass(number, self.event_name(), (context, payload))
            if self.chance(0.3):
                event.log_level = random.randint(0, 14)
            if self.chance(0.1):
                event.model_uri = "http://example.org/x"
            stream_class.events.append(event)
        if stream_class.header is None or not stream_class.header.members:
            event = stream_class.events[0]
            if event.fields is None:
                event.fields = Struct([])
            event.fields.members.insert(0, ("first", Integer(8, self.is_big, alignment=8)))

    def event_name(self):
        name = self.random.choice([b"app:put", b"e", b"sched_switch", b"with space", b"quo\"te", "naïve".encode(), b"a/b"])
        return name + (b"%d" % self.random.randint(0, 99) if self.chance(0.7) else b"")

    def make_event_header(self, stream_class):
        random = self.random
        clock = stream_class.clock
        stream_class.id_field = stream_class.time_field = stream_class.long = None
        stream_class.highest_id = 1 << 20
        kind = random.choice(["compact", "large", "free", "free", "free", "none"])
        if kind == "none":
            stream_class.highest_id = 0
            return
        if kind in ("compact", "large") and clock:
            return self.make_lttng_header(stream_class, kind)
        members = []
        size = random.choice([8, 8, 16, 32, 64, random.randint(2, 64)])
        stream_class.id_field = self.plain(size)
        stream_class.highest_id = min((1 << size) - 1, 1 << 30)
        members.append(("id", stream_class.id_field))
        if clock and self.chance(0.95):
            stream_class.time_field = self.mapped(random.choice([8, 16, 24, 27, 32, 32, 64, 64, random.randint(4, 64)]),
                                                  clock)
            members.append(("timestamp", stream_class.time_field))
        if self.chance(0.2):
            members.append(("more", self.plain(16)))
        if self.chance(0.3):
            random.shuffle(members)
        if self.chance(0.1):
            members = [(name, field) if name == "id" else (f"_in{name}", Struct([(name, field)]))
                       for name, field in members]
        stream_class.header = Struct(members, random.choice([1, 1, 8, 16, 32]))

    def make_lttng_header(self, stream_class, kind):
        """A short form, and a long one that its id announces."""
        clock = stream_class.clock
        bits, time_size = (5, 27) if kind == "compact" else (16, 32)
        escape = (1 << bits) - 1
        alignment = 1 if kind == "compact" else 8
        tag = Enum(Integer(bits, self.is_big, alignment=alignment),
                   [(kind.encode(), 0, escape - 1), (b"extended", escape, escape)])
        tag.tagged = [kind.encode(), b"extended"]
        time = Integer(time_size, self.is_big, alignment=alignment, clock=clock.name)
        long_id = Integer(32, self.is_big, alignment=8)
        long_time = Integer(64, self.is_big, alignment=8, clock=clock.name)
        short = Struct([("timestamp", time)])
        extended = Struct([("id", long_id), ("timestamp", long_time)])
        stream_class.id_field, stream_class.time_field = self.special(tag.container), self.special(time)
        stream_class.long = (escape, long_id, long_time)
        variant = Variant(tag, "id", [(kind, short), ("extended", extended)])
        stream_class.header = Struct([("id", tag), ("v", variant)], 8 if self.chance(0.7) else 1)

    def make_streams(self):
        for stream_class in self.stream_classes:
            for instance in range(self.random.choice([1, 1, 2, 3]) if self.has_instances or self.chance(0.3) else 1):
                stream = Stream(stream_class, instance * self.random.choice([1, 1, 5]) % 256)
                if any(known.stream_class is stream_class and known.instance == stream.instance
                       for known in self.streams) and self.has_instances:
                    continue
                self.make_packets(stream)
                self.streams.append(stream)

    def make_packets(self, stream):
        random = self.random
        stream_class = stream.stream_class
        context = stream_class.packet_context
        has_sizes = context is not None and "content_size" in context
        now = stream_class.clock.start if stream_class.clock else 0
        discarded = random.choice([0, 0, 3])
        number = random.choice([0, 0, 7])
        for _ in range(random.choice([1, 2, 3, 4]) if has_sizes else 1):
            now += self.gap(stream_class)
            begin = now
            events = []
            has_begin = context is not None and "timestamp_begin" in context
            for i in range(random.choice([0, 1, 2, 3, 6])):
                is_free = i == 0 and not has_begin
                time = now + self.gap(stream_class)
                event = random.choice(stream_class.events)
                now = time
                events.append((time, event))
                if is_free and stream_class.time_field is not None and stream_class.time_field.size < 64:
                    if stream_class.long is None:
                        raise NotValid("a narrow time without a begin")
            now += self.gap(stream_class)
            packet = Packet(begin, events, now)
            discarded += random.choice([0, 0, 0, 1, 5])
            number += 1 if self.chance(0.85) else 3
            packet.discarded, packet.number = discarded, number
            stream.packets.append(packet)

    def gap(self, stream_class):
        """Cycles between two events."""
        if stream_class.clock is None:
            return 0
        most = min(stream_class.clock.frequency * 20, self.random.choice([1, 100, 10_000, 1 << 20, 1 << 30, 1 << 34]))
        field = stream_class.time_field
        if field is not None and stream_class.long is None:
            most = min(most, (1 << field.size) - 1)
        return self.random.choice([0, most, self.random.randint(0, most), self.random.randint(0, most)])

    def encode(self):
        for stream in self.streams:
            for packet in stream.packets:
                self.encode_packet(stream, packet)

    def encode_packet(self, stream, packet):
        """Twice, with the same values: the size stands before what it is the size of."""
        state = self.random.getstate()
        sizes = (0, 0)
        for _ in range(2):
            self.random.setstate(state)
            writer = BitWriter()
            self.write_header(writer, stream)
            self.write_context(writer, stream, packet, sizes)
            self.write_events(writer, stream, packet)
            content = writer.position
            padding = self.random.choice([0, 0, 5, 100, 4096])
            context = stream.stream_class.packet_context
            is_stated = context is not None and "packet_size" in context
            if not is_stated:
                if content % 8:
                    raise NotValid("content that ends within the last byte of a packet")
                padding = 0
            writer.align(8)
            writer.bytes += self.random.randbytes(padding)
            sizes = (content, 8 * len(writer.bytes))
        if self.header is None and not packet.events and not writer.bytes:
            raise NotValid("a packet of no bytes")
        packet.bytes, packet.content_size = bytes(writer.bytes), sizes[0]

    def write_header(self, writer, stream):
        if self.header is None:
            return
        values = {"magic": MAGIC, "stream_id": stream.stream_class.number, "stream_instance_id": stream.instance}
        for name, field in self.header.members:
            if name == "uuid":
                field.element.given = None
                numbers = iter(self.uuid.bytes)
                field.element.choose = lambda _random, numbers=numbers: next(numbers)
            elif name in values:
                field.given = values[name]
        self.header.write(writer, self.random)

    def write_context(self, writer, stream, packet, sizes):
        context = stream.stream_class.packet_context
        if context is None:
            return
        values = {"timestamp_begin": packet.begin, "timestamp_end": packet.end, "content_size": sizes[0],
                  "packet_size": sizes[1], "packet_seq_num": packet.number, "events_discarded": packet.discarded,
                  "cpu_id": stream.instance}
        for name, field in context.members:
            if name in values:
                field.given = values[name]
        context.write(writer, self.random)

    def write_events(self, writer, stream, packet):
        stream_class = stream.stream_class
        context = stream_class.packet_context
        state = packet.begin if context is not None and "timestamp_begin" in context else None
        for time, event in packet.events:
            begin = writer.position
            if stream_class.header is not None:
                self.set_header(stream_class, event, time, state)
                stream_class.header.write(writer, self.random)
            state = time
            for scope in (stream_class.event_context, event.context, event.fields):
                if scope is not None:
                    scope.write(writer, self.random)
            if writer.position == begin:
                raise NotValid("an event of no bits")

    def set_header(self, stream_class, event, time, state):
        number, field = event.number, stream_class.time_field
        stream_class.id_field.given = number
        if stream_class.long is not None:
            escape, long_id, long_time = stream_class.long
            is_long = number >= escape or state is None or time - state >= 1 << field.size or self.chance(0.1)
            if is_long:
                stream_class.id_field.given = escape
                long_id.given, long_time.given = number, time
        if field is not None:
            field.given = time & ((1 << field.size) - 1)

    # --- the metadata

    def metadata(self):
        random = self.random
        tsdl = Tsdl(random, self.is_big)
        blocks = [clock.tsdl(random) for clock in self.clocks]
        blocks += self.environment()
        later = []
        for stream_class in self.stream_classes:
            block = self.stream_block(stream_class, tsdl)
            events = [self.event_block(stream_class, event, tsdl) for event in stream_class.events]
            if self.chance(0.1) and all("stream_id" in event for event in events):
                later += events + [block]
            else:
                later += [block, *events]
        trace = self.trace_block(tsdl)
        comment = random.choice(["", "/* a comment; */\n", "// trace { byte_order = be; };\n"])
        return "/* CTF 1.8 */\n" + comment + "\n".join([trace, *blocks, *tsdl.declarations, *later]) + "\n"

    def trace_block(self, tsdl):
        lines = ["major = 1;", "minor = 8;", f"byte_order = {'be' if self.is_big else 'le'};"]
        if self.uuid:
            lines.append(f'uuid = "{self.uuid}";')
        if self.header is not None:
            inner = Tsdl(self.random, self.is_big)
            inner.maybe_named = lambda text: text
            lines.append(f"packet.header := struct {self.header_block(inner)};")
        return f"trace {{ {' '.join(lines)} }};"

    def header_block(self, tsdl):
        return self.header.block(tsdl)

    def environment(self):
        random = self.random
        self.environment_values = {}
        if self.chance(0.4):
            return []
        lines = []
        choices = {"hostname": ["box", "h o s t", ""], "procname": ["prog"], "vpid": [12, -1], "domain": ["ust", "kernel"],
                   "tracer_name": ["mine"], "tracer_major": [2], "note": ["a\"b\\c", 7, -8]}
        for name, values in choices.items():
            if self.chance(0.4):
                value = self.environment_values[name] = random.choice(values)
                lines.append(f"{name} = {quoted(value.encode()) if isinstance(value, str) else value};")
        return [f"env {{ {' '.join(lines)} }};"] if lines else []

    def stream_block(self, stream_class, tsdl):
        lines = []
        if stream_class.has_number:
            lines.append(f"id = {stream_class.number};")
        for name, scope in (("packet.context", stream_class.packet_context), ("event.header", stream_class.header),
                            ("event.context", stream_class.event_context)):
            if scope is not None:
                lines.append(f"{name} := {scope.tsdl(tsdl)};")
        return f"stream {{ {' '.join(lines)} }};"

    def event_block(self, stream_class, event, tsdl):
        lines = [f"name = {quoted(event.name)};"]
        if stream_class.id_field is not None or event.number or self.chance(0.5):
            lines.append(f"id = {event.number};")
        if stream_class.has_number and (len(self.stream_classes) > 1 or self.chance(0.8)):
            lines.append(f"stream_id = {stream_class.number};")
        if event.log_level is not None:
            lines.append(f"loglevel = {event.log_level};")
        if event.model_uri:
            lines.append(f'model.emf.uri = "{event.model_uri}";')
        for name, scope in (("context", event.context), ("fields", event.fields)):
            if scope is not None:
                lines.append(f"{name} := {scope.tsdl(tsdl)};")
        return f"event {{ {' '.join(lines)} }};"

    # --- the files

    def write(self, directory):
        random = self.random
        text = self.text
        has_two = bool(self.uuid) and self.chance(0.3) and all(map(self.may_be_divided, self.streams))
        directories = [directory / "one", directory / "sub" / "two"] if has_two else [directory]
        is_packetized = self.chance(0.3)
        for path in directories:
            path.mkdir(parents=True, exist_ok=True)
            data = self.packetized(text.encode()) if is_packetized else text.encode()
            (path / "metadata").write_bytes(data)
        for number, stream in enumerate(self.streams):
            files = self.files_of(stream)
            for part, packets in enumerate(files):
                path = random.choice(directories)
                name = f"{random.choice(['chan', 'c', 'stream'])}_{number}" + (f"_{part}" if len(files) > 1 else "")
                (path / name).write_bytes(b"".join(packet.bytes for packet in packets))
                self.write_index(path, name, stream, packets)

    @staticmethod
    def may_be_divided(stream):
        """Packets of one time, or of none, babeltrace2 turns around if a trace has several directories."""
        context = stream.stream_class.packet_context
        has_begin = context is not None and "timestamp_begin" in context
        return has_begin and stream.has_distinct_begins()

    def files_of(self, stream):
        context = stream.stream_class.packet_context
        can_roll = self.has_instances and context is not None and "timestamp_begin" in context
        if len(stream.packets) < 2 or not can_roll or self.chance(0.6) or not stream.has_distinct_begins():
            return [stream.packets]
        cut = self.random.randint(1, len(stream.packets) - 1)
        return [stream.packets[:cut], stream.packets[cut:]]

    def write_index(self, path, name, stream, packets):
        context = stream.stream_class.packet_context
        names = ("timestamp_begin", "timestamp_end", "packet_seq_num", "events_discarded")
        if not self.chance(0.3) or not context or not all(field in context for field in names) or not packets:
            return
        data = struct.pack(">IIII", INDEX_MAGIC, 1, 1, INDEX_ENTRY_SIZE)
        offset = 0
        for packet in packets:
            data += struct.pack(">9Q", offset, 8 * len(packet.bytes), packet.content_size, packet.begin, packet.end,
                                packet.discarded, stream.stream_class.number, stream.instance, packet.number)
            offset += len(packet.bytes)
        kind = self.random.choice(["right", "right", "magic", "cut", "junk"])
        data = {"right": data, "magic": b"\0" + data[1:], "cut": data[:-7], "junk": self.random.randbytes(99)}[kind]
        (path / "index").mkdir(exist_ok=True)
        (path / "index" / f"{name}.idx").write_bytes(data)

    def packetized(self, text):
        order = ">" if self.is_big else "<"
        identity = (self.uuid or uuid_module.UUID(int=0)).bytes
        data = b""
        size = self.random.choice([100, 300, 4096 - 37, len(text)])
        for begin in range(0, len(text), size):
            piece = text[begin:begin + size]
            padding = self.random.choice([0, 7]) if size < 4000 else (4096 - 37 - len(piece)) % 4096
            data += struct.pack(f"{order}I16sIIIBBBBB", METADATA_MAGIC, identity, 0, 8 * (37 + len(piece)),
                                8 * (37 + len(piece) + padding), 0, 0, 0, 1, 8) + piece + bytes(padding)
        return data


def make_traces(seed):
    """The traces of this number, and whether they have times."""
    random = random_module.Random(seed)
    for _ in range(200):
        try:
            count = 2 if random.random() < 0.1 else 1
            start = random.choice([0, 1_700_000_000, 1_700_000_000, random.randint(1, 2_000_000_000)])
            traces = [Trace(random, start, count > 1) for _ in range(count)]
            is_timed = set.union(*(trace.is_timed() for trace in traces))
            if len(is_timed) == 1:
                break
        except NotValid:
            continue
    else:
        raise AssertionError(f"seed {seed}: no valid trace in 200 attempts")
    return traces, is_timed.pop()


def directories_of(traces, directory):
    """Where each trace has its files."""
    directory = pathlib.Path(directory)
    return [directory / f"t{number}" if len(traces) > 1 else directory for number in range(len(traces))]


def write_traces(seed, directory):
    """Writes the traces of this number below the directory, which does not exist yet. Returns whether they have times."""
    traces, is_timed = make_traces(seed)
    for trace, path in zip(traces, directories_of(traces, directory)):
        trace.write(path)
    return is_timed
