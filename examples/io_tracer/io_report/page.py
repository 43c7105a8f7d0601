"""A report as one page, which needs nothing else."""
import json
import pathlib

from .forms import id_text

TEMPLATE = pathlib.Path(__file__).with_name("page.html")


def with_texts(rows):
    """A number of JavaScript has 53 bits; an id may have 64."""
    return [{**row, "request": id_text(row["request"])} for row in rows]


def html(report):
    report = {**report, **{what: with_texts(report[what]) for what in ("slowest", "in_flight")}}
    # Names come from traces: none of them ends the script.
    data = json.dumps(report).replace("<", "\\u003c")
    return TEMPLATE.read_text(encoding="utf-8").replace("/*REPORT*/null", data)
