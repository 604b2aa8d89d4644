"""A part of a phase, as recorders time it, that notes what is done with it."""


class Part:
    """Notes when it is entered and left; fails in one of these."""

    timed = True

    def __init__(self, fails=None):
        self.fails, self.calls = fails, []

    def __enter__(self):
        self.note("enter")

    def __exit__(self, *args):
        self.note("exit")

    def note(self, call):
        self.calls.append(call)
        if call == self.fails:
            raise ValueError("planted")
