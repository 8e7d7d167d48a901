"""A driver whose agent kills somebody at one of its writes; agents load this file.

``KILL=half 5 agent``: at the fifth frame that it sends, with half of it sent, itself. ``before``
and ``after`` are the other instants; ``parent`` is who started it, a guest's process or ours.
"""

import os
import signal
from pathlib import Path

import numpy as np
from foretrace.hil.agent import command
from foretrace.hil.driver import Driver, Ready, driver
from foretrace.hil.sample import Sample

serve = command.reply_until_end


class Deadly:
    """Where frames are written to, and the end of somebody at one of them."""

    def __init__(self, sink, when, number, who):
        self.sink, self.when, self.left, self.who = sink, when, int(number), who

    def write(self, data):
        self.left -= 1
        if not self.left and self.when == "before":
            self.kill()
        if not self.left and self.when == "half":
            self.sink.write(data[: len(data) // 2])
            self.kill()
        self.sink.write(data)
        if not self.left and self.when == "after":
            self.kill()

    def flush(self):
        self.sink.flush()

    def kill(self):
        self.sink.flush()
        os.kill(os.getpid() if self.who == "agent" else os.getppid(), signal.SIGKILL)
        signal.pause()  # the end of who started it is its own


def deadly(allow, source, sink):
    told = os.environ.get("KILL", "").split()
    with Path(os.environ["KILL_PIDS"]).open("a") as file:
        file.write(f"{os.getpid()}\n")
    serve(allow, source, Deadly(sink, *told) if told else sink)


command.reply_until_end = deadly


@driver("killing")
class Killing(Driver):
    ops = ("copy:h2h",)
    clock = "wall"

    def probe(self):
        return Ready(("killing0",))

    def describe(self):
        return {"device": "killing0"}

    def timing(self, requests):
        return [
            Sample(r.signature, np.full(r.n, 100.0), "wall", context=r.key[1]) for r in requests
        ]
