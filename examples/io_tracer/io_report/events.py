"""The events of IO requests in a trace, as `leat view` prints them."""
import re
import subprocess
import tempfile

from . import Failed

# "[seconds] host name: { cpu_id = 0 }, payload", or more between the last two.
RING = re.compile(r"\{ (cpu_id|thread_ring) = (\d+) \}, \{ ")
LOSS = re.compile(r"WARNING: (?:(?:Tracer discarded|Network lost|Missed) (?P<count>\d+) (?P<what>event|packet)s?|Tracer may have discarded events)"
                  r"\b.* \(stream class ID: \d+, stream ID: (?P<stream>\d+)\)")
EVENT = re.compile(r"^(?:(read|write)_)?(queued|dispatched|completed|cancelled|wait)$")
KINDS = {"queued": "Q", "dispatched": "D", "completed": "C", "cancelled": "X", "wait": "W"}
NUMBER = r"-?(?:0x[0-9A-F]+|0b[01]+|\d+)"  # an octal one begins with 0
END = r"(?=, | [{}])"  # of a value; a set of bits is followed by its labels
VALUE = rf'({NUMBER}|\( .*? : container = {NUMBER} \)|"(?:[^"\\]|\\.)*"){END}'
LABEL = re.compile(rf'\( "((?:[^"\\]|\\.)*)" : container = ({NUMBER}) \)|\( .* : container = (?P<bare>{NUMBER}) \)')

# What programs call the fields.
REQUEST = ("request", "id", "request_id")
CLASS = ("class", "class_", "class_number", "class_id", "priority_class")
LENGTH = ("length", "bytes", "size", "len", "blocks")
DIRECTION = ("direction", "is_write")
BLOCK = 512

MOST_RINGS = 4096
MOST_PLACES = 100_000  # an event on a CPU of a trace


def payload_of(line, end):
    """What follows the last of the contexts; `end` is that of the first group of fields."""
    return line[line.rfind(" }, { ", end) + 6:]


def number_of(text):
    """Of a NUMBER."""
    digits = text.removeprefix("-")
    if digits[:1] != "0":
        return int(text)
    return int(text, {"x": 16, "b": 2}.get(digits[1:2], 8))


def label_of(text):
    """A number or an enumeration's value, as its label (None: there is none) and number."""
    match = LABEL.match(text)
    if match is None:
        return (text.strip('"'), None) if text.startswith('"') else (None, number_of(text))
    return match[1], number_of(match["bare"] or match[2])


class Fields:
    """Finds the fields of one event's records."""

    def __init__(self, event, payload, needs):
        self.event = event
        self.searches = {}
        for what, names, is_needed in needs:
            name = next((name for name in names if self.search(name)(payload)), None)
            if name is not None:
                self.searches[what] = self.search(name)
                self.unit = BLOCK if name == "blocks" else 1
            elif is_needed:
                raise Failed(f"{event} has no field that is called {' or '.join(names)}")

    @staticmethod
    def search(name):
        return re.compile(rf"(?:^|, ){name} = {VALUE}").search

    def get(self, what, payload):
        search = self.searches.get(what)
        if search is None:
            return None
        match = search(payload)
        if match is None:
            raise Failed(f"a record of {self.event} makes no sense: {payload[:80]!r}")
        return match[1]

    def number(self, what, payload):
        text = self.get(what, payload)
        try:
            return None if text is None else number_of(text)
        except ValueError:
            raise Failed(f"{self.event}: its {what} is no number") from None


class Ring:
    """Where events come from: a CPU of a trace, or a thread that had a ring of its own."""

    def __init__(self, number, trace, kind, of_kind):
        self.number = number
        self.trace = trace  # the number of the trace, or of the process
        is_of_cpu = kind == "cpu_id"
        self.cpu = of_kind if is_of_cpu else f"thread-{of_kind}"
        # As warnings call it. Streams of threads have numbers above those of all CPUs; which ones, no line tells.
        self.stream = of_kind if is_of_cpu else None


class Queued:
    """Reads the payload of a queued event; its flow is the class and direction."""

    def __init__(self, event, direction, payload):
        self.fields = Fields(event, payload, [("request", REQUEST, True), ("class", CLASS, False),
                                              ("direction", DIRECTION, False), ("length", LENGTH, False)])
        self.direction = direction
        self.flows = {}

    def read(self, payload):
        fields = self.fields
        text = (fields.get("class", payload), fields.get("direction", payload))
        flow = self.flows.get(text)
        if flow is None:
            flow = self.flows[text] = self.flow_of(*text)
        return fields.number("request", payload), flow, (fields.number("length", payload) or 0) * fields.unit

    def flow_of(self, class_text, direction_text):
        name, number = label_of(class_text) if class_text is not None else (None, 0)
        direction = self.direction
        if direction_text is not None:
            label, bit = label_of(direction_text)
            direction = label or ("write" if bit else "read")
        return name, number, direction or "any"


class Events:
    """Iterates over (kind, time in ns, ring, request, flow, length): of kind "Q", "D", "C", "X" (cancelled) or "W". A flow is (name or None,
    number, direction)."""

    def __init__(self, leat, traces, provider):
        self.command = [leat, "view", "--clock-seconds", "--no-delta", *traces]
        self.provider = provider
        self.rings = []
        self.others = 0  # events of other kinds
        self.other_names = set()
        self.discarded = {}  # events, by stream
        self.lost_packets = 0
        self.unknown_losses = 0  # of events, which may be none
        self.traces = {}
        self.by_ring = {}
        self.places = {}
        self.layouts = {}

    def __iter__(self):
        with tempfile.TemporaryFile("w+", errors="replace") as errors:
            try:
                view = subprocess.Popen(self.command, stdout=subprocess.PIPE, stderr=errors, text=True, errors="replace")
            except OSError as error:
                raise Failed(f"{self.command[0]}: {error.strerror}; --leat names the program") from None
            try:
                yield from self.parse(view.stdout)
            except ValueError:
                raise Failed("leat view prints a time or a number that is none") from None
            finally:
                view.stdout.close()  # it ends, if we give up
                status = view.wait()
            errors.seek(0)
            self.take_messages(errors, status)

    def take_messages(self, lines, status):
        last = f"leat view ends with status {status}"
        for line in lines:
            match = LOSS.match(line)
            if match:
                self.add_loss(match)
            last = line.rstrip()
        if status != 0:
            raise Failed(last.removeprefix("leat: "))

    def add_loss(self, match):
        if match["what"] == "packet":
            self.lost_packets += int(match["count"])
        elif match["what"] == "event":
            stream = int(match["stream"])
            self.discarded[stream] = self.discarded.get(stream, 0) + int(match["count"])
        else:
            self.unknown_losses += 1

    def parse(self, lines):
        places = self.places
        for line in lines:
            # All between time and payload is one of a few.
            begin = line.find("] ")
            end = line.find(" }, ", begin)
            kind, ring, layout = places.get(line[begin:end]) or self.place_of(line, begin, end)
            if kind is None:
                self.others += 1
                continue
            time = int(line[1:begin].replace(".", ""))
            if kind == "Q":
                yield (kind, time, ring, *layout.read(payload_of(line, end)))
            elif kind == "W":
                yield kind, time, ring, None, None, 0
            else:
                match = layout(payload_of(line, end))
                if match is None:
                    raise Failed(f"a record makes no sense: {line[:120]!r}")
                yield kind, time, ring, number_of(match[1]), None, 0

    def place_of(self, line, begin, end):
        head_end = line.find(": { ", begin)
        head = line[begin + 2:head_end]
        host, _, name = head.rpartition(" ")
        provider, _, event = name.partition(":")
        known = EVENT.match(event) if provider == self.provider else None
        ring = RING.match(line, head_end + 2)
        if ring is None:
            if known:
                raise Failed(f"not an event of a CPU: {line[:80]!r}")
            # Not kept as a place: without a CPU, each may look different.
            return self.other(head)
        if len(self.places) == MOST_PLACES:
            raise Failed(f"more than {MOST_PLACES:,} kinds of events: report one trace at a time")
        place = self.known_place(line, end, host, name, known, ring) if known else self.other(name)
        self.places[line[begin:end]] = place
        return place

    def other(self, name):
        if len(self.other_names) < 5:
            self.other_names.add(name)
        return None, None, None

    def known_place(self, line, end, host, name, known, ring):
        kind = KINDS[known[2]]
        if name not in self.layouts:
            self.layouts[name] = self.layout_of(name, kind, known[1], payload_of(line, end))
        return kind, self.ring_of(host, ring[1], int(ring[2])), self.layouts[name]

    @staticmethod
    def layout_of(event, kind, direction, payload):
        if kind == "Q":
            return Queued(event, direction, payload)
        if kind == "W":
            return None
        name = next((name for name in REQUEST if Fields.search(name)(payload)), None)
        if name is None:
            raise Failed(f"{event} has no field that is called {' or '.join(REQUEST)}")
        return re.compile(rf"(?:^|, ){name} = ({NUMBER}){END}").search

    def ring_of(self, host, kind, of_kind):
        trace = self.traces.setdefault(host, len(self.traces))
        ring = self.by_ring.get((trace, kind, of_kind))
        if ring is None:
            if len(self.rings) == MOST_RINGS:
                raise Failed(f"more than {MOST_RINGS} CPUs: report one trace at a time")
            ring = self.by_ring[trace, kind, of_kind] = Ring(len(self.rings), trace, kind, of_kind)
            self.rings.append(ring)
        return ring
