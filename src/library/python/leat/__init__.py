"""Traces on disk, of Leat, LTTng and others (CTF 1.8 and 2), for scripts.

    import leat

    for event in leat.open("my-trace"):
        print(event.time_ns, event.name, event["size"])

    table = leat.open("my-trace", filter='$ctx.vpid == 42').columns(["time_ns", "name", "size"])
    table["size"].mean()                       # NumPy arrays

`leat view` shows the same events in the same order. What cannot be read raises leat.Error, where it is found. A reader is
for one thread at a time. Signals such as that of Ctrl-C interrupt a reading of the process's main thread. One interpreter of
a process can import this module.
"""

import datetime
import os
import typing

from . import _ctf

__all__ = ["Enum", "Error", "Event", "Losses", "Reader", "open"]

_FIRST, _LAST = -(2**63), 2**63 - 1
_EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.timezone.utc)


class Error(Exception):
    """Says in a line what cannot be read."""


class Enum(int):
    """The value of an enum: a number that has labels. One for most, none for a value without a name, several where
    ranges overlap."""

    labels: "tuple[str, ...]"

    def __new__(cls, number, labels=()):
        self = super().__new__(cls, number)
        self.labels = labels
        return self

    def __str__(self):
        return "|".join(self.labels) if self.labels else int.__repr__(self)

    def __repr__(self):
        return f"<{self}: {int.__repr__(self)}>" if self.labels else int.__repr__(self)

    def __reduce__(self):
        return Enum, (int(self), self.labels)


class Event:
    """An event. Its fields are int, float, str, Enum, dict (a struct) or list (an array); None is a variant that holds
    nothing. Bytes of a text that are not UTF-8 are written as \\xHH."""

    __slots__ = ("time_ns", "name", "log_level", "contexts", "fields")

    def __init__(self, time_ns, name, log_level, contexts, fields):
        self.time_ns = time_ns  # since the clock's origin, which is 1970 for most; None: it has no time
        self.name = name
        self.log_level = log_level  # 0 EMERG to 14 DEBUG; None: it has none
        self.contexts = contexts  # of the packet, of the stream's events, of this kind of event; of a name, the first
        self.fields = fields

    def __getitem__(self, name):
        """A field, or else a context."""
        return self.fields[name] if name in self.fields else self.contexts[name]

    def __contains__(self, name):
        return name in self.fields or name in self.contexts

    def get(self, name, otherwise=None):
        return self.fields.get(name, self.contexts.get(name, otherwise))

    @property
    def time(self):
        """In UTC, as a datetime, which has microseconds; None: it has none."""
        return None if self.time_ns is None else _EPOCH + datetime.timedelta(microseconds=self.time_ns // 1000)

    def to_dict(self):
        return {name: getattr(self, name) for name in self.__slots__}

    def __eq__(self, other):
        return self.to_dict() == other.to_dict() if isinstance(other, Event) else NotImplemented

    __hash__ = None

    def __repr__(self):
        return f"Event({', '.join(f'{name}={value!r}' for name, value in self.to_dict().items())})"


class Losses(typing.NamedTuple):
    """What the traces say that they do not have."""

    events: int  # that the tracer discarded
    packets: int  # that the tracer discarded, the network lost, or somebody removed
    unknown: int  # times that an unknown number of events was discarded


def _nanoseconds(time, otherwise, rest=0):
    if time is None:
        return otherwise
    if not isinstance(time, datetime.datetime):
        return time
    # Extreme years have no local time; in those, no offset from UTC matters.
    utc = time.replace(tzinfo=datetime.timezone.utc) if time.year in (1, 9999) else time.astimezone(datetime.timezone.utc)
    ns = (utc - _EPOCH) // datetime.timedelta(microseconds=1) * 1000 + rest
    return min(max(ns, _FIRST), _LAST)


class Reader:
    """Events, in the order of their times. An iterator, and a context manager."""

    def __init__(self, paths, filter=None, begin=None, end=None):
        if isinstance(paths, (str, bytes, os.PathLike)):
            paths = [paths]
        self._reader = _ctf.open([os.fsencode(path) for path in paths], filter, _nanoseconds(begin, _FIRST),
                                 _nanoseconds(end, _LAST, rest=999))

    def __iter__(self):
        return iter(self._reader)

    def __next__(self):
        return next(self._reader)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def seek(self, time):
        """The next event will be the first at this time or later: nanoseconds, or a datetime."""
        self._reader.seek(_nanoseconds(time, _FIRST))

    def losses(self):
        """What was lost up to the latest event that was read."""
        return Losses(*self._reader.losses())

    def environment(self, name):
        """Of the trace of the current event: "hostname", "vpid", "tracer_name". None: there is no such line, or no event."""
        return self._reader.environment(name)

    def columns(self, names=None, rows=None):
        """The next events as a table: a dictionary of NumPy arrays, all of the same length.

        `names`: "time_ns", "name", "log_level", "$ctx.vpid", "key"; None: time_ns, name, and all contexts and fields.
        `rows`: read so many at most; fewer come only before the end, or before what cannot be read. None: all, and what
        cannot be read raises Error.

        Integers are int64; or uint64, if the field has 64 bits without a sign. Text and labels of enums are str, and
        what is no number is text as in `leat view --format=csv`. Where an event has no such field, integers are masked
        (numpy.ma), floats are NaN, and texts are None.
        """
        import numpy

        if isinstance(names, str):
            names = [names]
        return {name: _array(numpy, *column) for name, *column in self._reader.read_columns(names, rows)}

    def close(self):
        """Unmaps the files. Events and columns stay."""
        self._reader.close()


def _array(numpy, kind, data, missing, texts):
    is_missing = None if missing is None else numpy.frombuffer(missing, dtype=bool)
    if kind == "t":
        # One object for each text, however many rows have it.
        array = numpy.empty(max(len(texts), 1), dtype=object)
        array[: len(texts)] = texts
        array = array[numpy.frombuffer(data, dtype=numpy.int64)]
        if is_missing is not None:
            array[is_missing] = None
        return array
    array = numpy.frombuffer(data, dtype={"q": numpy.int64, "Q": numpy.uint64, "d": numpy.float64}[kind])
    if is_missing is None:
        return array
    if kind != "d":
        return numpy.ma.masked_array(array, is_missing)
    array[is_missing] = numpy.nan
    return array


def open(*paths, filter=None, begin=None, end=None):  # as gzip.open and others
    """Reads all traces in or below these directories.

    `filter`: as `leat view --filter`: '$ctx.vpid == 42 && key == "user*"'.
    `begin`, `end`: only events of this time: nanoseconds since the clock's origin, or datetimes (without a time zone: of
    the local one). Both belong to it, a datetime with all of its microsecond.
    """
    return Reader(paths, filter, begin, end)


_ctf.use(Error, Event, Enum)
