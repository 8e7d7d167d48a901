"""A stand-in of torch with one GPU: a host that launches, a device that works off a queue.

Time is made up, in ns: a call costs the host its launch, and the device its kernel, which begins
once it was launched and what is before it has ended. It shows what a way of timing sees, not how
a GPU behaves.
"""

import sys
from contextlib import contextmanager
from types import SimpleNamespace

EVENT, HERTZ = 500, 1e9  # ns that the host takes to record an event; cycles in a second of a sleep
UUID = "1"


class Cuda:
    """``torch.cuda`` of one device."""

    def __init__(self):
        self.host = 0.0
        self.streams = [Stream()]
        self.current = self.streams[0]
        self.slept = []
        self.allocated = self.peak = 0
        self.emptied = 0
        self.pair = 0.0  # ns that an event takes of the device

    @property
    def device(self):
        """When all that was queued has ended."""
        return max(s.free for s in self.streams)

    def launch(self, host, device, waits=False):
        """A call: one kernel; ``waits`` where the host goes on only when it has ended."""

        def call():
            self.host += host
            self.current.free = max(self.current.free, self.host) + (
                device() if callable(device) else device
            )
            if waits:
                self.synchronize()

        return call

    def synchronize(self, device=None):
        self.host = max(self.host, self.device)

    def _sleep(self, cycles):
        self.slept.append(cycles)
        self.launch(EVENT, cycles / HERTZ * 1e9)()

    def Event(self, enable_timing=False):
        return Event(self)

    def Stream(self, device=None):
        self.streams.append(Stream())
        return self.streams[-1]

    @contextmanager
    def stream(self, stream):
        before, self.current = self.current, stream
        yield
        self.current = before

    def empty_cache(self):
        self.emptied += 1

    def device_count(self):
        return 1

    def set_device(self, device):
        pass

    def get_device_properties(self, device):
        return SimpleNamespace(uuid=UUID)

    def get_device_name(self, device):
        return "stand-in"

    def memory_allocated(self, device):
        return self.allocated

    def reset_peak_memory_stats(self, device):
        self.peak = self.allocated

    def max_memory_allocated(self, device):
        return self.peak


class Stream:
    """A queue of the device."""

    def __init__(self):
        self.free = 0.0

    def wait_event(self, event):
        self.free = max(self.free, event.at)


class Event:
    """A mark in a queue; ``at`` is when the device comes to it."""

    def __init__(self, cuda):
        self.cuda = cuda

    def record(self):
        self.cuda.launch(EVENT, self.cuda.pair)()
        self.at = self.cuda.current.free

    def query(self):
        return self.at <= self.cuda.host

    def elapsed_time(self, other):
        return (other.at - self.at) / 1e6


class Tensor:
    """Knows where it is, and what was asked of it."""

    def __init__(self, device, pinned=False):
        self.device, self.pinned, self.asked = device, pinned, []

    def pin_memory(self):
        return Tensor(self.device, pinned=True)

    def copy_(self, other, non_blocking=False):
        self.asked.append((other, non_blocking))
        return self

    def to(self, dtype):
        return self

    def __add__(self, number):
        return self


class MemoryFullError(RuntimeError):
    """The device has no memory left."""


def install(monkeypatch):
    """Put it where ``import torch`` finds it."""
    torch = SimpleNamespace(
        __version__="0.stand-in", version=SimpleNamespace(cuda="0.0"), cuda=Cuda(),
        backends=SimpleNamespace(
            cudnn=SimpleNamespace(allow_tf32=True, version=lambda: 90000),
        ),
        precision="highest", OutOfMemoryError=MemoryFullError,
        device=lambda name: SimpleNamespace(type=name.partition(":")[0], index=0),
        zeros=lambda shape, dtype=None, device=None: Tensor(device),
        rand=lambda shape, dtype=None, device=None: Tensor(device),
        set_num_threads=lambda n: None, manual_seed=lambda n: None,
        set_grad_enabled=lambda on: None,
        **dict.fromkeys(("uint8", "int8", "int16", "int32", "int64", "bool", "float16", "float32",
                         "float64", "bfloat16", "float8_e4m3fn", "float8_e5m2")),
    )  # fmt: skip
    torch.set_float32_matmul_precision = lambda name: setattr(torch, "precision", name)
    torch.get_float32_matmul_precision = lambda: torch.precision
    monkeypatch.setitem(sys.modules, "torch", torch)
    return torch
