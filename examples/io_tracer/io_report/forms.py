"""A report as text, and events as lines."""
import tempfile

from . import printable

BARS = " ▁▂▃▄▅▆▇█"
COLUMNS = 64
MOST_SHOWN = 16
QUANTILES = ("p50", "p90", "p99", "p99.9", "max")


def time_text(ns):
    if ns is None:
        return "-"
    for unit, size in ("s", 10**9), ("ms", 10**6), ("us", 10**3):
        if ns >= size:
            return f"{ns / size:.3g} {unit}" if ns < 999.5 * size else f"{ns / size:.0f} {unit}"
    return f"{ns} ns"


def size_text(size):
    for unit in ("B", "KiB", "MiB", "GiB"):
        if size < 10240 or unit == "GiB":
            return f"{size:.0f} {unit}" if isinstance(size, int) or unit != "B" else f"{size:.1f} {unit}"
        size /= 1024


def count_text(number, noun):
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def table(rows):
    """The first row is the head; texts to the left, the others to the right."""
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    return ["  ".join(cell.ljust(width) if column < 2 else cell.rjust(width)
                      for column, (cell, width) in enumerate(zip(row, widths))).rstrip() for row in rows]


def balance(requests):
    """Where all requests are. What is missing in the first line is not in the trace."""
    completed = requests["completed"] - requests["completed_without_queued"]
    cancelled = f" + {requests['cancelled']:,} cancelled" if requests["cancelled"] else ""
    ended = f" + {requests['without_completed']:,} that ended unseen" if requests["without_completed"] else ""
    lines = [f"{count_text(requests['queued'], 'request')} queued = {completed:,} completed{cancelled} + {requests['in_device_at_end']:,} in the device + "
             f"{requests['waiting_at_end']:,} waiting at the end{ended}; {requests['dispatched']:,} dispatched"]
    if requests["without_queued"] or requests["completed_without_queued"]:
        lines.append(f"queued before the trace, or skipped: {requests['without_queued']:,} that were dispatched, "
                     f"{requests['completed_without_queued']:,} that were completed. If they are many: see --ids")
    return lines


def bars(slots):
    """The most in each of a few columns."""
    step = max(1, -(-len(slots) // COLUMNS))
    columns = [max(slot["most"] for slot in slots[at:at + step]) for at in range(0, len(slots), step)]
    top = max(columns)
    return "".join(BARS[-(-column * (len(BARS) - 1) // top) if top else 0] for column in columns), top


def times_of(report, what):
    rows = [["class", "", "requests", "bytes", "bytes/s", "mean", *QUANTILES]]
    for row in report["classes"]:
        times = row[what]
        rows.append([printable(row["class"]), printable(row["direction"]), f"{row['completed']:,}", size_text(row["bytes"]),
                     size_text(row["bytes_a_second"]), time_text(times["mean"]), *(time_text(times[name]) for name in QUANTILES)])
    return table(rows)


def id_text(request):
    return f"{request:x}"


def request_text(row):
    return f"{id_text(row['request'])} ({printable(row['class'])} {printable(row['direction'])} {row['bytes']})"


def losses(report):
    """Beside the events that were skipped and counted."""
    parts = [f"{count_text(report['lost_packets'], 'packet')} lost, and what was in them"] if report["lost_packets"] else []
    if report["unknown_losses"]:
        parts.append(f"{count_text(report['unknown_losses'], 'time')} events may have been skipped, and nobody counted them")
    return ["; ".join(parts)] if parts else []


def text(report):
    lines = [f"{count_text(report['events'], 'event')} in {time_text(report['duration'])}"
             + (f"; {report['bytes_on_disk']:,} bytes on disk" if report["bytes_on_disk"] is not None else "")
             + (f", {report['bytes_a_request']:.2f} a request" if report["bytes_a_request"] is not None else "")
             + f"; {report['skipped']:,} skipped", *losses(report), *balance(report["requests"])]
    for what, title in ("queue_time", "queue time, from queued to dispatched"), ("device_time",
                                                                              "device time, from dispatched to completed"):
        lines += ["", title, *times_of(report, what)]
    slots = report["timeline"]["waiting"]
    column = report["timeline"]["width"] * max(1, -(-len(slots) // COLUMNS))
    lines += ["", f"over time, a column each {time_text(column)}"]
    for what, title in ("in_device", "in the device"), ("waiting", "waiting"):
        drawn, top = bars(report["timeline"][what])
        lines.append(f"{title:13} |{drawn}| at most {top}")
    waits = report["waits"]
    lines += ["", f"{count_text(waits['begun'], 'wait')} for capacity"
              + (f": p50 {time_text(waits['time']['p50'])}, p99 {time_text(waits['time']['p99'])}, "
                 f"longest {time_text(waits['time']['max'])}" if waits["time"]["count"] else "")]
    slowest = [["slowest request", "class", "at", "cpu", "bytes", "queue", "device", "total"]]
    slowest += [[id_text(row["request"]), f"{printable(row['class'])} {printable(row['direction'])}", f"{row['at'] / 1e9:.6f}", str(row["cpu"]),
                 str(row["bytes"]), time_text(row["queue"]), time_text(row["device"]), time_text(row["total"])]
                for row in report["slowest"][:10]]
    lines += ["", *table(slowest)]
    if report["in_flight"]:
        rest = report["requests"]["in_device_at_end"] + report["requests"]["waiting_at_end"] - MOST_SHOWN
        lines += ["", "in flight at the end: " + ", ".join(request_text(row) + ("" if row["is_dispatched"] else " waiting")
                                                           for row in report["in_flight"][:MOST_SHOWN])
                  + (f", and {rest:,} more" if rest > 0 else "")]
    return "\n".join(lines) + "\n"


def seconds(us):
    return f"{us // 10**6:03}.{us % 10**6:06}"


def skipped_text(number):
    return f"--- buffer (skipped {number}) ---"


def write_lines(events, class_names, output):
    """A line for each event, as the decoder of [seastar-tracer] has it: number (there: offset), time, what; a part for each CPU.
    What was skipped elsewhere comes last."""
    parts = []
    counts = []
    begin = None
    for kind, time, ring, request, flow, length in events:
        begin = time if begin is None else begin
        while ring.number >= len(parts):
            parts.append(tempfile.TemporaryFile("w+"))
            counts.append(0)
        at = (time - begin) // 1000
        words = ["IO", kind]
        if request is not None:
            words.append(id_text(request))
        if kind == "Q":
            name, number, direction = flow
            if number is not None:
                class_names.setdefault(number, name or str(number))
            words += [printable(direction[0]), "class", printable(name) if number is None else str(number), str(length)]
        counts[ring.number] += 1
        parts[ring.number].write(f"{counts[ring.number]:08x}:{seconds(at)} {' '.join(words)}\n")
    known = ",".join(f"{number}:{printable(name)}" for number, name in sorted(class_names.items()))
    skipped = dict(events.discarded)
    for ring, part in zip(events.rings, parts):
        output.write(f"00000000:{seconds(0)} {skipped_text(skipped.pop(ring.stream, 0))}\n"
                     f"00000000:- OPENING: shard={ring.cpu} text={known}\n")
        part.seek(0)
        while block := part.read(1 << 20):
            output.write(block)
        part.close()
    if rest := sum(skipped.values()):
        output.write(f"00000000:{seconds(0)} {skipped_text(rest)}\n")
    return sum(counts)
