"""Rank processes of a collective: forked processes that run gloo or NCCL.

Each process runs in its own network namespace or on its own GPU. It receives over a pipe which op
to run and when to start.
"""

from __future__ import annotations

import ctypes
import json
import os
import signal
import socket
import time
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Any, NoReturn, Protocol

from ....sim.errors import DriverFault
from ..linux.netns import StarNetwork, inside_namespace

PORT = 29600
AHEAD = 2_000_000  # ns between telling the ranks and the instant at which all begin
HOLD = 1 << 21  # cycles, about a millisecond, in which a collective is queued
WAIT = 300.0  # s for an answer of a rank
Op = Callable[[], list[int]]
"""Op of a rank; returns the times, in ns, at which its gradient buckets were ready."""


class RankPlace(Protocol):
    """Interface of the environment in which ranks run, and of their communication library."""

    def inside(self, rank: int) -> AbstractContextManager[Any]:
        """Context manager in which the code of a rank runs, such as a network namespace."""

    def join(self, rank: int, count: int) -> RankOps:
        """Join the process group as one rank; returns the ops that the rank can run."""


@dataclass(frozen=True)
class GlooOnStar:
    """Ranks that use gloo, each on its own host of a star network.

    Parameters
    ----------
    star : network of hosts, one host per rank
    """

    star: StarNetwork

    def inside(self, rank: int) -> AbstractContextManager[Any]:
        """Context manager that enters the network namespace of the rank's host."""
        return inside_namespace(self.star.host(rank + 1))

    def join(self, rank: int, count: int) -> RankOps:
        """Join the gloo group over TCP; returns the ops that the rank can run."""
        return _init_gloo(self.star, rank, count)


@dataclass(frozen=True)
class NcclOnGpus:
    """Ranks that use NCCL; rank k runs on GPU k of this machine."""

    def inside(self, rank: int) -> AbstractContextManager[Any]:
        """Empty context manager: ranks on GPUs are ordinary processes of this machine."""
        return nullcontext()

    def join(self, rank: int, count: int) -> RankOps:
        """Join the NCCL group; returns the ops that the rank can run, timed by GPU events."""
        import torch
        import torch.distributed as group

        found = torch.cuda.device_count()
        if found < count:
            raise RuntimeError(
                f"{count} ranks need {count} GPUs, there are {found}, and NCCL cannot share one; "
                f"set ranks to at most {found}"
            )
        torch.cuda.set_device(rank)
        torch.set_default_device(f"cuda:{rank}")
        where = f"tcp://127.0.0.1:{PORT}"
        group.init_process_group("nccl", init_method=where, rank=rank, world_size=count)
        return RankOps(count, torch.cuda)


class RankProcesses:
    """Rank processes that execute collectives together.

    Parameters
    ----------
    place : environment in which the ranks run, such as network namespaces or GPUs
    count : number of ranks
    """

    def __init__(self, place: RankPlace, count: int):
        self.place = place
        self.pipes: list[socket.socket] = []
        self.children: list[int] = []
        try:
            for rank in range(count):
                self._fork(rank, count)
            self._receive_answers()
        except BaseException:
            self.close()
            raise

    def run_collective(self, what: Sequence[Any]) -> tuple[float, list[list[float]]]:
        """Run a collective; returns its time in ns, and time stamps of each rank.

        The time is from the last rank's start to the last end. On GPUs, whose clocks are not
        compared, it is the shortest time of any rank, because the rank that starts last does not
        wait. The stamps are each rank's start in ns after the first rank's start. For a training
        step the times when its buckets were ready follow.
        """
        begin = time.monotonic_ns() + AHEAD
        for pipe in self.pipes:
            _send(pipe, {"what": list(what), "at": begin})
        replies = self._receive_answers()
        begins = [t["begin"] for t in replies]
        arrivals = [[float(at - min(begins)) for at in t["came"]] for t in replies]
        if all("device_ns" in t for t in replies):
            return float(min(t["device_ns"] for t in replies)), arrivals
        return float(max(t["end"] for t in replies) - max(begins)), arrivals

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
            _rank_main(theirs, self.place, rank, count)
        theirs.close()
        ours.settimeout(WAIT)
        self.pipes.append(ours)
        self.children.append(child)

    def _receive_answers(self) -> list[dict[str, Any]]:
        replies = [_receive(pipe) for pipe in self.pipes]
        for rank, each in enumerate(replies):
            if "error" in each:
                raise DriverFault("broken", f"rank {rank}: {each['error']}")
        return replies


def _rank_main(pipe: socket.socket, place: RankPlace, rank: int, count: int) -> NoReturn:
    """Main function of a rank: join the group, then run the ops received until the pipe closes."""
    try:
        ctypes.CDLL(None).prctl(1, signal.SIGKILL, 0, 0, 0)  # die with who forked us
        with place.inside(rank):
            work = place.join(rank, count)
            _send(pipe, {})
            while replies := _receive(pipe):
                _send(pipe, _run_op(work, replies))
    except Exception as error:  # any error of torch is sent to the driver
        _send(pipe, {"error": f"{type(error).__name__}: {error}"})
    finally:
        os._exit(0)


def _init_gloo(star: StarNetwork, rank: int, count: int) -> RankOps:
    import torch
    import torch.distributed as group

    torch.set_num_threads(1)
    os.environ |= {"GLOO_SOCKET_IFNAME": "nic0", "USE_LIBUV": "0"}  # not every build has it
    group.init_process_group("gloo", init_method=f"tcp://{star.address(1)}:{PORT}", rank=rank,
                             world_size=count)  # fmt: skip
    return RankOps(count)


def _run_op(work: RankOps, replies: dict[str, Any]) -> dict[str, Any]:
    op = work.cached_op(*replies["what"])
    time.sleep(max(0, replies["at"] - time.monotonic_ns()) / 1e9)
    begin = time.monotonic_ns()
    if work.cuda is not None:
        device_ns = _event_time(work.cuda, op)
        return {"begin": begin, "end": begin, "came": [begin], "device_ns": device_ns}
    buckets = op()
    end = time.monotonic_ns()
    return {"begin": begin, "end": end, "came": [begin, *buckets]}


def _event_time(cuda: Any, op: Op) -> float:
    """Time of an op on the current GPU in ns, measured by CUDA events.

    A sleep kernel runs first, so that the op is queued before the GPU reaches it and the host's
    launch time is not included.
    """
    begin, end = (cuda.Event(enable_timing=True) for _ in range(2))
    cuda.synchronize()
    cuda._sleep(HOLD)
    begin.record()
    op()
    end.record()
    cuda.synchronize()
    return float(begin.elapsed_time(end)) * 1e6


class RankOps:
    """Ops that a rank can run; buffers are reused between calls.

    Parameters
    ----------
    count : number of ranks
    cuda : ``torch.cuda`` if its events time the ops; None for the host's clock
    """

    def __init__(self, count: int, cuda: Any = None):
        self.count, self.cuda = count, cuda
        self.kept: dict[tuple[Any, ...], Op] = {}

    def cached_op(self, name: str, size: int, *rest: float) -> Op:
        """Function that runs the op of that name with ``size`` bytes; it is built on first use."""
        key = (name, size, *rest)
        if key not in self.kept:
            self.kept[key] = OP_BUILDERS[name](self.count, size, *rest)
        return self.kept[key]


def _buffer(size: int) -> Any:
    import torch

    return torch.zeros(max(1, size // 4))


def _without_timestamps(collective: Callable[[], Any]) -> Op:
    """Op that runs a collective and returns no timestamps."""

    def run() -> list[int]:
        collective()
        return []

    return run


def _all_reduce(count: int, size: int) -> Op:
    from torch import distributed as group

    data = _buffer(size)
    return _without_timestamps(lambda: group.all_reduce(data))


def _all_gather(count: int, size: int) -> Op:
    from torch import distributed as group

    data = _buffer(size // count)
    parts = [_buffer(size // count) for _ in range(count)]
    return _without_timestamps(lambda: group.all_gather(parts, data))


def _all_to_all(count: int, size: int) -> Op:
    from torch import distributed as group

    into, data = _buffer(size), _buffer(size)
    return _without_timestamps(lambda: group.all_to_all_single(into, data))


def _broadcast(count: int, size: int) -> Op:
    from torch import distributed as group

    data = _buffer(size)
    return _without_timestamps(lambda: group.broadcast(data, 0))


def _barrier(count: int, size: int) -> Op:
    from torch import distributed as group

    return _without_timestamps(group.barrier)


def _step(count: int, size: int, buckets: float, forward: float, backward: float,
          update: float) -> Op:  # fmt: skip
    """Build a training step in which sleep replaces computing; returns a function that runs it.

    Each bucket is all-reduced while the next one is computed. The function returns the time when
    each bucket was ready, in ns by the host's monotonic clock.

    Parameters
    ----------
    count : number of ranks
    size : bytes of one bucket
    buckets : number of buckets
    forward, backward, update : durations in s; ``backward`` is that of one bucket
    """
    from torch import distributed as group

    data = [_buffer(size) for _ in range(int(buckets))]

    def run() -> list[int]:
        time.sleep(forward)
        under_way, arrivals = [], []
        for bucket in data:
            time.sleep(backward)
            arrivals.append(time.monotonic_ns())
            under_way.append(group.all_reduce(bucket, async_op=True))
        for each in under_way:
            each.wait()
        time.sleep(update)
        return arrivals

    return run


OP_BUILDERS: dict[str, Callable[..., Op]] = {
    "all-reduce": _all_reduce,
    "all-gather": _all_gather,
    "all-to-all": _all_to_all,
    "broadcast": _broadcast,
    "barrier": _barrier,
    "step": _step,
}


def _send(pipe: socket.socket, message: dict[str, Any]) -> None:
    pipe.sendall(json.dumps(message).encode() + b"\n")


def _receive(pipe: socket.socket) -> dict[str, Any]:
    """Receive the next message; in a rank, an empty one means that the pipe is closed."""
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
