"""Field classes of CTF 1.8: their TSDL, and values of theirs as bytes. The traces of random_traces.py are made of them."""
import re
import struct


class NotValid(Exception):
    """What was made by chance is no valid trace; another one must be made."""


class BitWriter:
    """The bytes of a packet. Within a byte, little-endian fields begin at the lowest bit, big-endian ones at the highest."""

    def __init__(self):
        self.bytes = bytearray()
        self.position = 0  # bits
        self.is_big = None  # the order of the byte that is being filled

    def align(self, alignment):
        self.position = -(-self.position // alignment) * alignment
        self._grow()

    def put(self, value, size, is_big):
        if self.position % 8 and is_big != self.is_big:
            raise NotValid("the byte order changes within a byte")
        self.is_big = is_big
        first, offset = divmod(self.position, 8)
        self.position += size
        self._grow()
        count = len(self.bytes) - first
        shift = 8 * count - offset - size if is_big else offset
        order = "big" if is_big else "little"
        window = int.from_bytes(self.bytes[first:], order) | (value & ((1 << size) - 1)) << shift
        self.bytes[first:] = window.to_bytes(count, order)

    def put_bytes(self, data):
        self.align(8)
        self.bytes += data
        self.position = 8 * len(self.bytes)

    def _grow(self):
        self.bytes.extend(bytes(-(-self.position // 8) - len(self.bytes)))


class Tsdl:
    """The text of the metadata, while it is written: types may be given names at the root, which come before their use."""

    def __init__(self, random, is_big):
        self.random = random
        self.is_big = is_big  # the byte order of the trace
        self.declarations = []

    def name(self):
        return f"type{len(self.declarations)}_t"

    def maybe_named(self, text):
        """The type under its own text, or a name for it."""
        if self.random.random() < 0.8:
            return text
        name = self.name()
        is_alias = self.random.random() < 0.5
        self.declarations.append(f"typealias {text} := {name};" if is_alias else f"typedef {text} {name};")
        return name

    def order(self, is_big):
        """A byte order's attribute; the trace's own may be left out."""
        if is_big == self.is_big and self.random.random() < 0.5:
            return ""
        names = ["be", "network"] if is_big else ["le"]
        if is_big == self.is_big:
            names.append("native")
        return f" byte_order = {self.random.choice(names)};"


def quoted(text):
    """A string literal of TSDL. `text`: bytes."""
    escapes = {b"\n": b"\\n", b"\t": b"\\t", b'"': b'\\"', b"\\": b"\\\\", b"\r": b"\\r", b"\a": b"\\a", b"\v": b"\\v"}
    return '"' + b"".join(escapes.get(bytes([byte]), bytes([byte])) for byte in text).decode() + '"'


class Integer:
    alignment_of_size = staticmethod(lambda size: 1 if size % 8 else 8)

    def __init__(self, size, is_big, *, alignment=None, is_signed=False, base=10, encoding=None, clock=None):
        self.size = size
        self.is_big = is_big
        self.stated_alignment = alignment
        self.alignment = alignment or self.alignment_of_size(size)
        self.is_signed = is_signed
        self.base = base
        self.encoding = encoding
        self.clock = clock
        self.given = None  # the value to write; none: any
        self.choose = None  # how to choose it: a function of Random
        self.last = None  # the value that was written last
        self.is_special = False  # it means something to readers

    def attributes(self, tsdl):
        text = f"size = {self.size};"
        if self.stated_alignment:
            text += f" align = {self.stated_alignment};"
        if self.is_signed or tsdl.random.random() < 0.2:
            text += f" signed = {str(self.is_signed).lower()};"
        text += tsdl.order(self.is_big)
        if self.base != 10:
            names = {2: ["2", "b", "binary"], 8: ["8", "o", "oct"], 16: ["16", "x", "hexadecimal", "hex"]}
            text += f" base = {tsdl.random.choice(names[self.base])};"
        if self.encoding:
            text += f" encoding = {self.encoding};"
        if self.clock:
            text += f" map = clock.{self.clock}.value;"
        return text

    def tsdl(self, tsdl):
        return tsdl.maybe_named(f"integer {{ {self.attributes(tsdl)} }}")

    @property
    def limits(self):
        return (-(1 << self.size - 1), (1 << self.size - 1) - 1) if self.is_signed else (0, (1 << self.size) - 1)

    def any_value(self, random):
        low, high = self.limits
        kind = random.random()
        if kind < 0.4:
            return max(low, min(high, random.randint(-3, 300)))
        return random.choice([low, high]) if kind < 0.55 else random.randint(low, high)

    def write(self, writer, random):
        if self.given is not None:
            value = self.given
        else:
            value = self.choose(random) if self.choose else self.any_value(random)
        self.last = value
        writer.align(self.alignment)
        writer.put(value, self.size, self.is_big)


class Enum:
    """`ranges`: (label in bytes, lowest, highest), in the order of their declaration."""

    def __init__(self, container, ranges):
        self.container = container
        self.ranges = ranges
        self.alignment = container.alignment
        self.choose = None
        self.tagged = None  # the labels that a variant has options for

    def tsdl(self, tsdl):
        entries = []
        following = 0
        for label, low, high in self.ranges:
            is_plain = re.fullmatch(rb"[A-Za-z_][A-Za-z_0-9]*", label) and label not in KEYWORDS
            text = label.decode() if is_plain and tsdl.random.random() < 0.7 else quoted(label)
            if low != high or (low == high and tsdl.random.random() < 0.1):
                text += f" = {low} ... {high}"
            elif low != following or tsdl.random.random() < 0.7:
                text += f" = {low}"
            entries.append(text)
            following = high + 1
        comma = tsdl.random.choice(["", ","])
        return tsdl.maybe_named(f"enum : {self.container.tsdl(tsdl)} {{ {', '.join(entries)}{comma} }}")

    def any_value(self, random):
        low, high = self.container.limits
        if self.ranges and random.random() < 0.8:
            _, begin, end = random.choice(self.ranges)
            value = random.choice([begin, end, random.randint(begin, end)])
            if low <= value <= high:
                return value
        return self.container.any_value(random)

    def choose_tag(self, random):
        _, low, high = random.choice([entry for entry in self.ranges if entry[0] in self.tagged])
        return random.choice([low, high, random.randint(low, high)])

    def write(self, writer, random):
        if self.container.given is None:
            self.container.given = self.choose_tag(random) if self.tagged else self.any_value(random)
            self.container.write(writer, random)
            self.container.given = None
        else:
            self.container.write(writer, random)

    @property
    def last(self):
        return self.container.last


class Float:
    SPECIAL = [0.0, -0.0, 1.0, -2.5, 1e9, 1e-9, 123456.5, 1234567.0, float("inf"), float("-inf"), float("nan"), 3e-310]

    def __init__(self, size, is_big, alignment=None):
        self.size = size
        self.is_big = is_big
        self.stated_alignment = alignment
        self.alignment = alignment or 8

    def tsdl(self, tsdl):
        digits = (8, 24) if self.size == 32 else (11, 53)
        text = f"exp_dig = {digits[0]}; mant_dig = {digits[1]};{tsdl.order(self.is_big)}"
        if self.stated_alignment:
            text += f" align = {self.stated_alignment};"
        return tsdl.maybe_named(f"floating_point {{ {text} }}")

    def write(self, writer, random):
        if random.random() < 0.4:
            bits = random.getrandbits(self.size)
        else:
            value = random.choice(self.SPECIAL) if random.random() < 0.6 else random.uniform(-1e6, 1e6)
            kind = ("<f", "<I") if self.size == 32 else ("<d", "<Q")
            bits = struct.unpack(kind[1], struct.pack(kind[0], value))[0]
        writer.align(self.alignment)
        writer.put(bits, self.size, self.is_big)


def any_text(random, longest=40, lowest=0):
    length = random.choice([0, 1, 3, 8, random.randint(0, longest)])
    if random.random() < 0.6:
        return bytes(random.choice(b"abc XYZ-09_%{}[]\"'\\?/\n") for _ in range(length))
    return bytes(random.randint(lowest, 255) for _ in range(length))


class String:
    alignment = 8

    def __init__(self, encoding=None):
        self.encoding = encoding

    def tsdl(self, tsdl):
        return tsdl.maybe_named(f"string {{ encoding = {self.encoding}; }}" if self.encoding else "string")

    def write(self, writer, random):
        writer.put_bytes(any_text(random, lowest=1) + b"\0")


class Array:
    """Of a fixed length, or a sequence: then `length` is the field that holds it, and `path` its name in TSDL."""

    def __init__(self, element, length, path=None):
        self.element = element
        self.length = length
        self.path = path
        self.alignment = element.alignment

    @property
    def bracket(self):
        return f"[{self.length if self.path is None else self.path}]"

    def tsdl(self, tsdl):
        """The type of the elements and the brackets after the name: what a declaration needs."""
        if isinstance(self.element, Array) and tsdl.random.random() < 0.6:
            text, brackets = self.element.tsdl(tsdl)
            return text, self.bracket + brackets
        return declared(self.element, tsdl), self.bracket

    def write(self, writer, random):
        writer.align(self.alignment)
        for _ in range(self.length if self.path is None else self.length.last):
            self.element.write(writer, random)


def has_underscores(field):
    """Whether names of members or options in it begin with one."""
    if isinstance(field, Array):
        return has_underscores(field.element)
    members = getattr(field, "members", getattr(field, "options", []))
    return any(name.startswith("_") or has_underscores(member) for name, member in members)


def declared(field, tsdl):
    """The type as one word or block; an array gets a name, which TSDL demands."""
    text = field.tsdl(tsdl)
    if isinstance(text, str):
        return text
    if has_underscores(field):
        raise NotValid("a name for fields with underscores, of which babeltrace2 takes one off at each use")
    if "." in text[1]:
        raise NotValid("a path in a typedef, which babeltrace2 does not parse")
    name = tsdl.name()
    tsdl.declarations.append(f"typedef {text[0]} {name}{text[1]};")
    return name


class Struct:
    def __init__(self, members, minimum_alignment=1):
        self.members = members  # (TSDL name, field)
        self.minimum_alignment = minimum_alignment

    @property
    def alignment(self):
        return max([self.minimum_alignment, *(field.alignment for _, field in self.members)])

    def __getitem__(self, name):
        return dict(self.members)[name]

    def __contains__(self, name):
        return any(known == name for known, _ in self.members)

    def block(self, tsdl):
        text = ""
        for name, field in self.members:
            kind = field.tsdl(tsdl)
            kind, brackets = (kind, "") if isinstance(kind, str) else kind
            text += f"{kind} {name}{brackets}; "
        align = f" align({self.minimum_alignment})" if self.minimum_alignment > 1 else ""
        return f"{{ {text}}}{align}"

    def tsdl(self, tsdl):
        if tsdl.random.random() < 0.85 or has_underscores(self):
            return f"struct {self.block(tsdl)}"
        block = self.block(tsdl)
        name = tsdl.name()
        tsdl.declarations.append(f"struct {name} {block};")
        return f"struct {name}"

    def write(self, writer, random):
        writer.align(self.alignment)
        for _, field in self.members:
            field.write(writer, random)


class Variant:
    alignment = 1

    def __init__(self, tag, path, options):
        self.tag = tag
        self.path = path
        self.options = options  # (name, field)

    def tsdl(self, tsdl):
        text = ""
        for name, field in self.options:
            kind = field.tsdl(tsdl)
            kind, brackets = (kind, "") if isinstance(kind, str) else kind
            text += f"{kind} {name}{brackets}; "
        return f"variant <{self.path}> {{ {text}}}"

    def write(self, writer, random):
        value = self.tag.last
        for label, low, high in self.tag.ranges:
            if low <= value <= high:
                dict(self.options)[label.decode()].write(writer, random)
                return
        raise NotValid("a tag without an option")


KEYWORDS = {word.encode() for word in (
    "align callsite char clock const double enum env event floating_point float int integer long short signed stream "
    "string struct trace typealias typedef unsigned variant void _Bool _Complex _Imaginary").split()}
