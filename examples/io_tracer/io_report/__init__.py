"""What the events of IO requests say: the parts of `report`."""


class Failed(Exception):
    """One line for the user: what is wrong, and what helps."""


def printable(text):
    return "".join(character if character.isprintable() else "?" for character in text)


def readable_message(text):
    """What is said to people may quote a trace or an option: any characters, any number of them."""
    most = 2000
    return printable(text[:most]) + ("..." if len(text) > most else "")
