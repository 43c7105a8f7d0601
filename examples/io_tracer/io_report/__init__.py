"""What the events of IO requests say: the parts of `report`."""


class Failed(Exception):
    """One line for the user: what is wrong, and what helps."""
