"""The ranks of a collective: processes forked from one that has torch loaded.

Each lives in its own network namespace and is told over a pipe what to do and when to begin.
"""

from __future__ import annotations

import ctypes
import json
import os
import signal
import socket
import time
from collections.abc import Callable, Sequence
from typing import Any, NoReturn

from ...sim.errors import DriverFault
from .netns import Star, inside

PORT = 29600
AHEAD = 2_000_000  # ns between telling the ranks and the instant at which all begin
WAIT = 300.0  # s for an answer of a rank
Op = Callable[[], list[int]]
"""What a rank does once; it tells, in ns, when what it reduces meanwhile was there."""


class RankProcesses:
    """Processes that do collectives together.

    Parameters
    ----------
    star : the hosts they live on, one each
    count : of ranks
    """

    def __init__(self, star: Star, count: int):
        self.star = star
        self.pipes: list[socket.socket] = []
        self.children: list[int] = []
        try:
            for rank in range(count):
                self._fork(rank, count)
            self._answers()
        except BaseException:
            self.close()
            raise

    def do(self, what: Sequence[Any]) -> tuple[float, list[list[float]]]:
        """One collective: ns from the last rank's arrival to the last rank's end; when each came.

        That is ns after the first; of a step also when each bucket was there.
        """
        begin = time.monotonic_ns() + AHEAD
        for pipe in self.pipes:
            _say(pipe, {"what": list(what), "at": begin})
        told = self._answers()
        begins = [t["begin"] for t in told]
        came = [[float(at - min(begins)) for at in t["came"]] for t in told]
        return float(max(t["end"] for t in told) - max(begins)), came

    def close(self) -> None:
        """End all ranks."""
        for pipe in self.pipes:
            pipe.close()
        for child in self.children:
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)
        self.pipes, self.children = [], []

    def _fork(self, rank: int, count: int) -> None:
        ours, theirs = socket.socketpair()
        child = os.fork()
        if child == 0:
            ours.close()
            _live(theirs, self.star, rank, count)
        theirs.close()
        ours.settimeout(WAIT)
        self.pipes.append(ours)
        self.children.append(child)

    def _answers(self) -> list[dict[str, Any]]:
        told = [_hear(pipe) for pipe in self.pipes]
        for rank, each in enumerate(told):
            if "error" in each:
                raise DriverFault("broken", f"rank {rank}: {each['error']}")
        return told


def _live(pipe: socket.socket, star: Star, rank: int, count: int) -> NoReturn:
    """A rank: join the others, then do what the pipe says until it ends."""
    try:
        ctypes.CDLL(None).prctl(1, signal.SIGKILL, 0, 0, 0)  # die with who forked us
        with inside(star.host(rank + 1)):
            works = _joined(star, rank, count)
            _say(pipe, {})
            while told := _hear(pipe):
                _say(pipe, _done(works, told))
    except Exception as error:  # whatever torch raises is told to who asked
        _say(pipe, {"error": f"{type(error).__name__}: {error}"})
    finally:
        os._exit(0)


def _joined(star: Star, rank: int, count: int) -> RankWork:
    import torch
    import torch.distributed as group

    torch.set_num_threads(1)
    os.environ |= {"GLOO_SOCKET_IFNAME": "nic0", "USE_LIBUV": "0"}  # not every build has it
    group.init_process_group("gloo", init_method=f"tcp://{star.address(1)}:{PORT}", rank=rank,
                             world_size=count)  # fmt: skip
    return RankWork(count)


def _done(works: RankWork, told: dict[str, Any]) -> dict[str, Any]:
    op = works.ready(*told["what"])
    time.sleep(max(0, told["at"] - time.monotonic_ns()) / 1e9)
    begin = time.monotonic_ns()
    buckets = op()
    end = time.monotonic_ns()
    return {"begin": begin, "end": end, "came": [begin, *buckets]}


class RankWork:
    """What a rank can do, buffers kept from one time to the next."""

    def __init__(self, count: int):
        self.count = count
        self.kept: dict[tuple[Any, ...], Op] = {}

    def ready(self, name: str, size: int, *rest: float) -> Op:
        """A collective with its buffers."""
        key = (name, size, *rest)
        if key not in self.kept:
            self.kept[key] = MAKE[name](self.count, size, *rest)
        return self.kept[key]


def _buffer(size: int) -> Any:
    import torch

    return torch.zeros(max(1, size // 4))


def _plain(collective: Callable[[], Any]) -> Op:
    """One that has nothing to tell of what happens in it."""

    def run() -> list[int]:
        collective()
        return []

    return run


def _all_reduce(count: int, size: int) -> Op:
    from torch import distributed as group

    data = _buffer(size)
    return _plain(lambda: group.all_reduce(data))


def _all_gather(count: int, size: int) -> Op:
    from torch import distributed as group

    data = _buffer(size // count)
    parts = [_buffer(size // count) for _ in range(count)]
    return _plain(lambda: group.all_gather(parts, data))


def _all_to_all(count: int, size: int) -> Op:
    from torch import distributed as group

    into, data = _buffer(size), _buffer(size)
    return _plain(lambda: group.all_to_all_single(into, data))


def _broadcast(count: int, size: int) -> Op:
    from torch import distributed as group

    data = _buffer(size)
    return _plain(lambda: group.broadcast(data, 0))


def _barrier(count: int, size: int) -> Op:
    from torch import distributed as group

    return _plain(group.barrier)


def _step(count: int, size: int, buckets: float, forward: float, backward: float,
          update: float) -> Op:  # fmt: skip
    """A training step whose computing is slept: each bucket is reduced while the next is computed.

    It tells when each bucket was there.

    Parameters
    ----------
    size : B of one bucket
    forward, backward, update : s; backward of one bucket
    """
    from torch import distributed as group

    data = [_buffer(size) for _ in range(int(buckets))]

    def run() -> list[int]:
        time.sleep(forward)
        under_way, came = [], []
        for bucket in data:
            time.sleep(backward)
            came.append(time.monotonic_ns())
            under_way.append(group.all_reduce(bucket, async_op=True))
        for each in under_way:
            each.wait()
        time.sleep(update)
        return came

    return run


MAKE: dict[str, Callable[..., Op]] = {
    "all-reduce": _all_reduce,
    "all-gather": _all_gather,
    "all-to-all": _all_to_all,
    "broadcast": _broadcast,
    "barrier": _barrier,
    "step": _step,
}


def _say(pipe: socket.socket, message: dict[str, Any]) -> None:
    pipe.sendall(json.dumps(message).encode() + b"\n")


def _hear(pipe: socket.socket) -> dict[str, Any]:
    """One message; an empty one where the other side is gone."""
    data = b""
    while not data.endswith(b"\n"):
        try:
            part = pipe.recv(4096)
        except TimeoutError:
            return {"error": f"no answer within {WAIT:g} s"}
        if not part:
            return {"error": "it ended"} if pipe.gettimeout() else {}
        data += part
    return dict(json.loads(data))
