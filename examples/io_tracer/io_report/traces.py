"""What lies beside the events: the environment of traces, and what they take on disk."""
import pathlib
import re

BLOCK = re.compile(rb"\benv\s*\{")
ENTRY = re.compile(rb'\s*([\w.]+)\s*=\s*(?:"((?:[^"\\]|\\.)*)"|(-?\d{1,19}))\s*;')
CLASS = re.compile(r"(?<!\d)(\d{1,19}):([^,]+)")
MOST_METADATA = 1 << 20


def directories(paths):
    """Of traces on this machine."""
    found = {}
    for path in map(pathlib.Path, paths):
        if path.is_dir():
            for directory in sorted({file.parent for file in path.rglob("metadata")}):
                found.setdefault(directory.resolve(), directory)
    return list(found.values())


def environment(directory):
    try:
        with open(directory / "metadata", "rb") as file:
            text = file.read(MOST_METADATA)
    except OSError:
        return {}
    entries = {}
    at = BLOCK.search(text)
    while at and (at := ENTRY.match(text, at.end())):
        name, value, number = at.groups()
        entries[name.decode()] = int(number) if number else value.decode(errors="replace")
    return entries


def class_names(environments):
    """From "classes", such as "0:main,1:exit"."""
    names = {}
    for entries in environments:
        for number, name in CLASS.findall(str(entries.get("classes", ""))):
            names.setdefault(int(number), name)
    return names


def size(found):
    return sum(file.stat().st_size for directory in found for file in directory.rglob("*") if file.is_file())
