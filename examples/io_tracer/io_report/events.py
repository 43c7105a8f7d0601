"""The events of IO requests in a trace, as `leat view` prints them."""
import re
import subprocess
import tempfile

from . import Failed

LINE = re.compile(r"^\[\d+\.\d{9}\] (?P<host>.*?) ?(?P<name>[^ :]+:[^ ]+): \{ (?P<ring>(?:cpu_id|thread_ring) = \d+) \}, "
                  r"(?:.*\}, )?\{ .*\}$")
DISCARDED = re.compile(r"Tracer discarded (\d+) events? .*stream ID: (\d+)\)")
EVENT = re.compile(r"^(?:(read|write)_)?(queued|dispatched|completed|cancelled|wait)$")
KINDS = {"queued": "Q", "dispatched": "D", "completed": "C", "cancelled": "X", "wait": "W"}
VALUE = r'(\d+|\( .*? : container = \d+ \)|"(?:[^"\\]|\\.)*")'
LABEL = re.compile(r'\( "((?:[^"\\]|\\.)*)" : container = (\d+) \)|\( .* : container = (?P<bare>\d+) \)')

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


def label_of(text):
    """A number or an enumeration's value, as its label (None: there is none) and number."""
    match = LABEL.match(text)
    if match is None:
        return (text.strip('"'), None) if text.startswith('"') else (None, int(text))
    return match[1], int(match["bare"] or match[2])


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
            return None if text is None else int(text)
        except ValueError:
            raise Failed(f"{self.event}: its {what} is no number") from None


class Ring:
    """Where events come from: a CPU of a trace."""

    def __init__(self, number, trace, name):
        self.number = number
        self.trace = trace  # the number of the trace, or of the process
        self.cpu = int(name.split()[-1])
        self.stream = self.cpu if name.startswith("cpu_id") else None  # as warnings call it


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
        self.discarded = {}  # by stream
        self.traces = {}
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
            match = DISCARDED.search(line)
            if match:
                self.discarded[int(match[2])] = self.discarded.get(int(match[2]), 0) + int(match[1])
            last = line.rstrip()
        if status != 0:
            raise Failed(last.removeprefix("leat: "))

    def parse(self, lines):
        places = self.places
        for line in lines:
            # "[seconds] host name: { cpu_id = 0 }, payload": all between time and payload is one of a few.
            begin = line.find("] ")
            end = line.find(" }, ", begin)
            key = line[begin:end]
            place = places.get(key)
            if place is None:
                place = places[key] = self.place_of(line, end)
            kind, ring, layout = place
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
                yield kind, time, ring, int(match[1]), None, 0

    def place_of(self, line, end):
        match = LINE.match(line.rstrip("\n"))
        if match is None:
            raise Failed(f"not an event of a CPU: {line[:80]!r}")
        if len(self.places) == MOST_PLACES:
            raise Failed(f"more than {MOST_PLACES:,} kinds of events: report one trace at a time")
        provider, _, event = match["name"].partition(":")
        known = EVENT.match(event)
        if known is None or provider != self.provider:
            if len(self.other_names) < 5:
                self.other_names.add(match["name"])
            return None, None, None
        ring = self.ring_of(match["host"], match["ring"])
        kind = KINDS[known[2]]
        if match["name"] not in self.layouts:
            self.layouts[match["name"]] = self.layout_of(match["name"], kind, known[1], payload_of(line, end))
        return kind, ring, self.layouts[match["name"]]

    @staticmethod
    def layout_of(event, kind, direction, payload):
        if kind == "Q":
            return Queued(event, direction, payload)
        if kind == "W":
            return None
        name = next((name for name in REQUEST if Fields.search(name)(payload)), None)
        if name is None:
            raise Failed(f"{event} has no field that is called {' or '.join(REQUEST)}")
        return re.compile(rf"(?:^|, ){name} = (\d+)").search

    def ring_of(self, host, name):
        trace = self.traces.setdefault(host, len(self.traces))
        for ring in self.rings:
            if (ring.trace, ring.cpu) == (trace, int(name.split()[-1])):
                return ring
        if len(self.rings) == MOST_RINGS:
            raise Failed(f"more than {MOST_RINGS} CPUs: report one trace at a time")
        self.rings.append(Ring(len(self.rings), trace, name))
        return self.rings[-1]
