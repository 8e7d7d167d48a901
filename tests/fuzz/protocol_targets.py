"""The protocol between a parent and its agents, damaged both ways: frames and answers.

Nothing is started: an agent's loop reads bytes, and a parent reads pipes that hold all answers.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Callable
from contextlib import ExitStack, suppress
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
from foretrace.hil.agent import protocol
from foretrace.hil.agent.client import RemoteDriver
from foretrace.hil.agent.server import reply_until_end
from foretrace.hil.agent.transport import Channel
from foretrace.hil.driver import DRIVERS, Driver, Ready, checked, driver
from foretrace.hil.peer_link import peer_links
from foretrace.hil.sample import Request, Sample
from foretrace.sim.errors import DriverFault

NAME = "fuzzed"
ROOM = 1 << 20  # bytes that a pipe holds
KNOWN = {"protocol", "state", "what", "describe", "samples", "reply", "peer", "fault"}


class Fuzzed(Driver):
    """What is behind the agent: harmless, and asks the other end in the middle of an op."""

    ops = ("host:idle", "host:other")

    def probe(self) -> Ready:
        return Ready(("fuzzed0",), {"numpy": "2"})

    def open(self, spec: Any) -> None:
        self.links = peer_links(spec.get("peer"), self.exchange)
        self.settings = checked({k: v for k, v in spec.items() if k != "peer"}, {"core": 0})

    def describe(self) -> dict[str, str]:
        return {"device": "fuzzed0"}

    def timing(self, requests: Any) -> list[Sample]:
        heard = [link.request({"do": "listen"}) for link in self.links]
        return [self._sample(request, heard) for request in requests]

    together = timing

    def peer(self, message: Any) -> Any:
        return {"did": message["do"]}

    def _sample(self, request: Request, heard: list[Any]) -> Sample:
        if request.n > 10_000:
            raise DriverFault("unsupported", "so many repeats")
        ns = np.full(request.n, 5.0)
        facts = {"heard": heard}
        return Sample(request.signature, ns, "wall", context=request.key[1], facts=facts)


if NAME not in DRIVERS:
    driver(NAME)(Fuzzed)


def packed(value: Any) -> bytes:
    """Frames of a list of messages, each with its arrays; bytes as they are."""
    if isinstance(value, bytes):
        return value
    found = []
    for message in value if isinstance(value, list) else [value]:
        if not isinstance(message, dict):
            continue
        rest = {k: v for k, v in message.items() if k != "arrays"}
        with suppress(ValueError, TypeError, OverflowError, DriverFault):
            lists = [np.array(a, np.float64).ravel() for a in message.get("arrays", ())]
            found.append(protocol.pack_frame(rest, lists))
    return b"".join(found)


def frames(value: Any, folder: Path) -> None:
    """An agent hears somebody who has the token: each reply can be read, and it is of a kind."""
    sink = BytesIO()
    reply_until_end((NAME,), BytesIO(packed(value)), sink, lambda: None)
    sink.seek(0)
    with suppress(EOFError):
        while True:
            message, _ = protocol.unpack_frame(sink.read)
            if message and not KNOWN & set(message):
                raise AssertionError(f"a reply that nobody knows: {message}")


def answers(value: Any, folder: Path) -> None:
    """A parent asks an agent that answers anything, as do those at the other ends."""
    before = len(os.listdir("/proc/self/fd"))
    try:
        _ask_everything(packed(value)[:ROOM])
    finally:
        if left := len(os.listdir("/proc/self/fd")) - before:
            raise AssertionError(f"{left} descriptors are left open")


def _ask_everything(stream: bytes) -> None:
    with ExitStack() as ears, ExitStack() as stack:
        remote = _agent_that_answers(stream, ears)
        stack.callback(remote.close)
        remote.probe()
        remote.open({"peer": {"agent": "b", "device": "x"}})
        remote.describe()
        asked = [Request("host:idle", 2)]
        for sample in (*remote.timing(asked), *remote.together(asked)):
            if not (np.isfinite(sample.ns).all() and sample.signature == "host:idle"):
                raise AssertionError(f"taken for an answer: {sample}")


def _agent_that_answers(stream: bytes, ears: ExitStack) -> RemoteDriver:
    """Somebody who has said all of it already, and hears what is asked."""
    source, answering = os.pipe()
    fcntl.fcntl(answering, fcntl.F_SETPIPE_SZ, ROOM)
    os.write(answering, stream)
    os.close(answering)
    heard, sink = os.pipe()
    ears.callback(os.close, heard)
    return RemoteDriver(
        Channel(source, sink), NAME, 1.0, lambda _: _agent_that_answers(stream, ears)
    )


TRAITS = {"name": NAME, "clock": "wall", "metric": "completion", "sharing": "solo",
          "realtime": False, "ops": ["host:idle"]}  # fmt: skip
REQUEST = {"signature": "host:idle", "n": 2, "context": "warm", "preceding": []}
AFTER = {**REQUEST, "context": "after", "preceding": ["host:other"]}
SAMPLE = {"signature": "host:idle", "clock": "wall", "metric": "completion", "context": "warm",
          "start": 0, "flags": [], "facts": {"load": 0.5}}  # fmt: skip
PEER = {"agent": "b", "device": "x"}
ASKED = [
    {"verb": "probe", "driver": NAME},
    {"verb": "open", "driver": NAME, "spec": {"core": 1, "peer": PEER}},
    {"verb": "describe"},
    {"verb": "timing", "requests": [REQUEST, AFTER], "together": False},
    {"reply": {"did": "listen"}},
    {"verb": "peer", "message": {"do": "listen"}},
    {"verb": "timing", "requests": [REQUEST], "together": True, "arrays": [[1.0, 2.0]]},
    {"fault": "broken", "text": "the cable is out"},
    {"verb": "close"},
]
TOLD = [
    {"protocol": protocol.VERSION, "drivers": [NAME], "python": "3.11.2", "host": "b"},
    {"what": TRAITS, "state": {"ready": True, "devices": ["fuzzed0"], "facts": {"numpy": "2"}},
     "reply": {"did": "listen"}},
    {"peer": 0, "do": "tell", "message": {"do": "listen"}, "what": TRAITS, "reply": {}},
    {"peer": 0, "do": "hear", "message": {}, "what": TRAITS, "reply": {"did": "echo"}},
    {"what": TRAITS},
    {"describe": {"device": "fuzzed0", "kernel": "6.1"}},
    {"samples": [SAMPLE], "arrays": [[5.0, 5.0]]},
    {"peer": 0, "do": "ask", "message": {"do": "listen"}},
    {"samples": [SAMPLE], "arrays": [[5.0, 6.0]]},
    {},
]  # fmt: skip
TARGETS: dict[str, tuple[list[Any], Callable[[Any, Path], None]]] = {
    "frames": ([ASKED, packed(ASKED)], frames),
    "answers": ([TOLD, packed(TOLD)], answers),
}
