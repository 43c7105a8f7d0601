"""What requests did, worked out from their events in one pass."""
import heapq

from . import Failed
from .histogram import Histogram

SLOTS = 512  # of the timeline: two are put together when time goes on
SLOWEST = 20
MOST_IN_FLIGHT = 1_000_000
MOST_NAMED = 1000
MOST_FLOWS = 128


class Flow:
    """Requests of one class and direction."""

    def __init__(self, number, name, class_number, direction):
        self.number = number
        self.name = name
        self.class_number = class_number
        self.direction = direction
        self.queued = 0
        self.completed = 0
        self.bytes = 0  # of completed requests
        self.queue_time = Histogram()
        self.device_time = Histogram()

    def place(self):
        """Among others, by which they are sorted: those whose class is a text come first."""
        return (self.class_number is not None, self.class_number or 0, self.name, self.direction)


class Timeline:
    """How many requests there were at each time, in slots of equal width."""

    def __init__(self):
        self.begin = None
        self.last = 0
        self.width = 1024  # ns
        self.waiting = 0
        self.in_device = 0
        # Of each slot: the most of both, their sums over time, and completed requests by flow.
        self.slots = [[0, 0, 0, 0, {}]]
        self.slot_end = 0

    def start(self, time):
        self.begin = self.last = time
        self.slot_end = time + self.width

    def move_to(self, time):
        """Before anything changes. Time does not go back."""
        while time >= self.slot_end:
            self.add_up(self.slot_end)
            self.slots.append([self.waiting, self.in_device, 0, 0, {}])
            if len(self.slots) > SLOTS:
                self.fold(time)
            self.slot_end = self.begin + len(self.slots) * self.width
        self.add_up(time)

    def add_up(self, time):
        slot = self.slots[-1]
        slot[2] += self.waiting * (time - self.last)
        slot[3] += self.in_device * (time - self.last)
        self.last = time

    def fold(self, time):
        # A pause of hours takes as many steps as one of seconds.
        while self.begin + SLOTS * self.width <= time:
            folded = []
            for first, second in zip(self.slots[::2], self.slots[1::2] + [[0, 0, 0, 0, {}]]):
                counts = dict(first[4])
                for flow, count in second[4].items():
                    counts[flow] = counts.get(flow, 0) + count
                folded.append([max(first[0], second[0]), max(first[1], second[1]), first[2] + second[2],
                               first[3] + second[3], counts])
            self.slots = folded
            self.width *= 2

    def count(self):
        """After a change."""
        slot = self.slots[-1]
        if self.waiting > slot[0]:
            slot[0] = self.waiting
        if self.in_device > slot[1]:
            slot[1] = self.in_device


class Request:
    __slots__ = ("queued_at", "ring", "number", "flow", "length", "dispatched_at")

    def __init__(self, queued_at, ring, number, flow, length):
        self.queued_at = queued_at
        self.ring = ring
        self.number = number
        self.flow = flow
        self.length = length
        self.dispatched_at = None


class Analysis:
    def __init__(self, class_names):
        self.class_names = class_names  # of those whose events have numbers alone
        self.flows = {}
        self.in_flight = {}
        self.timeline = Timeline()
        self.events = 0
        self.queued = self.dispatched = self.completed = self.cancelled = 0
        # Without the event before: it was skipped, or came before the trace.
        self.dispatched_unseen = self.completed_unseen = 0
        self.ended_unseen = 0  # their ids came again
        self.waits = Histogram()
        self.wait_count = 0
        self.waiting_since = {}
        self.slowest = []
        self.end = None

    def run(self, events, ids_are_of_trace):
        timeline = self.timeline
        in_flight = self.in_flight
        for kind, time, ring, number, flow, length in events:
            if timeline.begin is None:
                timeline.start(time)
            elif time < timeline.last:
                time = timeline.last
            self.events += 1
            timeline.move_to(time)
            key = (ring.trace if ids_are_of_trace else ring.number, number)
            if kind == "Q":
                self.queued += 1
                before = in_flight.pop(key, None)
                if before is not None:
                    self.ended_unseen += 1
                    self.leave(before)
                if len(in_flight) == MOST_IN_FLIGHT:
                    raise Failed(f"more than {MOST_IN_FLIGHT:,} requests in flight: their events of completion are missing")
                flow = self.flow_of(flow)
                flow.queued += 1
                in_flight[key] = Request(time, ring, number, flow, length)
                timeline.waiting += 1
            elif kind == "D":
                self.dispatched += 1
                since = self.waiting_since.pop(ring.number, None)
                if since is not None:
                    self.waits.record(time - since)
                request = in_flight.get(key)
                if request is None or request.dispatched_at is not None:
                    self.dispatched_unseen += 1
                else:
                    request.dispatched_at = time
                    request.flow.queue_time.record(time - request.queued_at)
                    timeline.waiting -= 1
                    timeline.in_device += 1
            elif kind == "C":
                self.completed += 1
                request = in_flight.pop(key, None)
                if request is None:
                    self.completed_unseen += 1
                else:
                    self.complete(request, time)
            elif kind == "X":
                request = in_flight.pop(key, None)
                if request is not None:
                    self.cancelled += 1
                    self.leave(request)
            else:
                self.wait_count += 1
                self.waiting_since.setdefault(ring.number, time)
            timeline.count()
        self.end = timeline.last

    def flow_of(self, identity):
        flow = self.flows.get(identity)
        if flow is None:
            if len(self.flows) == MOST_FLOWS:
                raise Failed(f"more than {MOST_FLOWS} scheduling classes: is the events' field of the class another?")
            name, number, direction = identity
            name = name or self.class_names.get(number) or f"class {number}"
            flow = self.flows[identity] = Flow(len(self.flows), name, number, direction)
        return flow

    def leave(self, request):
        if request.dispatched_at is None:
            self.timeline.waiting -= 1
        else:
            self.timeline.in_device -= 1

    def complete(self, request, time):
        self.leave(request)
        flow = request.flow
        flow.completed += 1
        flow.bytes += request.length
        counts = self.timeline.slots[-1][4]
        counts[flow.number] = counts.get(flow.number, 0) + 1
        if request.dispatched_at is not None:
            flow.device_time.record(time - request.dispatched_at)
        rank = (time - request.queued_at, self.completed)
        if len(self.slowest) < SLOWEST:
            heapq.heappush(self.slowest, (*rank, request, time))
        elif rank > self.slowest[0][:2]:
            heapq.heapreplace(self.slowest, (*rank, request, time))

    def result(self):
        """Everything, as JSON has it. Times are in ns; `at` counts from the trace's first event."""
        timeline = self.timeline
        begin = timeline.begin
        span = max(self.end - begin, 1)

        def place(request):
            return {"request": request.number, "cpu": request.ring.cpu, "class": request.flow.name,
                    "direction": request.flow.direction, "bytes": request.length, "at": request.queued_at - begin}

        still = sorted(self.in_flight.values(), key=lambda request: request.queued_at)
        in_device = sum(request.dispatched_at is not None for request in still)
        slots = timeline.slots
        # The last slot is not over.
        widths = [timeline.width] * (len(slots) - 1) + [max(self.end - begin - (len(slots) - 1) * timeline.width, 1)]
        return {
            "begin": begin,
            "duration": self.end - begin,
            "events": self.events,
            "requests": {
                "queued": self.queued, "dispatched": self.dispatched, "completed": self.completed,
                "cancelled": self.cancelled,
                "waiting_at_end": len(still) - in_device, "in_device_at_end": in_device,
                "without_queued": self.dispatched_unseen, "completed_without_queued": self.completed_unseen,
                "without_completed": self.ended_unseen,
            },
            "in_flight": [{**place(request), "is_dispatched": request.dispatched_at is not None}
                          for request in still[:MOST_NAMED]],
            "waits": {"begun": self.wait_count, "time": self.waits.summary()},
            "classes": [{
                "class": flow.name, "number": flow.class_number, "direction": flow.direction, "queued": flow.queued,
                "completed": flow.completed, "bytes": flow.bytes, "bytes_a_second": round(flow.bytes * 1e9 / span),
                "queue_time": flow.queue_time.summary(), "device_time": flow.device_time.summary(),
                "timeline": [slot[4].get(flow.number, 0) for slot in slots],
                "queue_curve": flow.queue_time.curve(), "device_curve": flow.device_time.curve(),
            } for flow in sorted(self.flows.values(), key=Flow.place)],
            "timeline": {
                "width": timeline.width,
                "waiting": [{"most": slot[0], "mean": round(slot[2] / width, 3)} for slot, width in zip(slots, widths)],
                "in_device": [{"most": slot[1], "mean": round(slot[3] / width, 3)} for slot, width in zip(slots, widths)],
            },
            "slowest": [{**place(request), "total": total,
                         "queue": None if request.dispatched_at is None else request.dispatched_at - request.queued_at,
                         "device": None if request.dispatched_at is None else time - request.dispatched_at}
                        for total, _, request, time in sorted(self.slowest, key=lambda item: item[:2], reverse=True)],
        }
