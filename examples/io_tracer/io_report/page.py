"""A report as one page, which needs nothing else."""
import json
import pathlib

TEMPLATE = pathlib.Path(__file__).with_name("page.html")


def html(report):
    # Names come from traces: none of them ends the script.
    data = json.dumps(report).replace("<", "\\u003c")
    return TEMPLATE.read_text(encoding="utf-8").replace("/*REPORT*/null", data)
