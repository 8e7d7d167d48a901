"""Driver ``host``: memory and arithmetic ops on one core of this machine.

It works on any Linux with NumPy, so that every test run can include hardware in the loop.
"""

from __future__ import annotations

import ctypes
import os
from collections.abc import Callable, Sequence
from functools import partial
from typing import get_args

import numpy as np
from numpy.typing import NDArray

from ....sim.errors import DriverFault
from ....sim.facts.signature import WIDTH, Signature
from ...driver import (
    Driver,
    Missing,
    Ready,
    Sharing,
    Spec,
    check_choice,
    checked,
    driver,
    parse_within_cap,
    signature_head,
)
from ...measuring import conditions
from ...measuring.device_lock import lock_device
from ...sample import WARM, Request, Sample
from ..linux import pointer_chase
from ..linux.concurrent_ops import completion_times
from ..linux.timer import READERS, Call, context_restorer, time_call

DTYPES: dict[str, type[np.float32] | type[np.float64]] = {"fp32": np.float32, "fp64": np.float64}
FLUSH = 64 << 20  # bytes written to empty the caches; more than the last level of most machines
STEPS = 20_000  # dependent loads within one reading
SETTINGS = {"core": -1, "clock": "cpu", "cap": 4 << 30, "seed": 0, "sharing": "solo"}
Buffer = NDArray[np.uint8]
LIBC = ctypes.CDLL(None)
MOVE, SET, FIND = LIBC.memcpy, LIBC.memset, LIBC.memchr
for _function in (MOVE, SET, FIND):
    _function.restype = ctypes.c_void_p
MOVE.argtypes = (ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t)
SET.argtypes = FIND.argtypes = (ctypes.c_void_p, ctypes.c_int, ctypes.c_size_t)


@driver("host")
class HostDriver(Driver):
    """Driver that times memory and arithmetic ops on one core.

    Settings: ``core`` (-1: the last core that this process may use), ``clock`` (``cpu``, because
    none of these ops waits, or ``wall``), ``cap`` (maximum bytes that one op may touch), ``seed``,
    ``sharing`` (``solo``, ``exclusive`` or ``concurrent``). With ``concurrent``, ops in flight are
    threads of the core. The core switches between them every few milliseconds, so shorter ops run
    one after the other.

    ==================== =========================================================
    copy:h2h             memory to memory, ``uint8[n]``
    host:read            read n bytes once
    host:fill            write n bytes once
    host:chase           one load that depends on the one before, within n bytes
    compute:aten::mm     GEMM of two fp32 or fp64 matrices
    compute:aten::add    sum of two vectors into a third
    ==================== =========================================================

    Examples
    --------
    >>> host = HostDriver()
    >>> host.open({})
    >>> len(host.timing([Request("host:chase uint8[4096]", n=3)])[0].ns)
    3
    >>> host.close()
    """

    ops = (
        "copy:h2h",
        "host:read",
        "host:fill",
        "host:chase",
        "compute:aten::mm",
        "compute:aten::add",
    )
    clock = "cpu"
    sharing = "solo"

    def __init__(self) -> None:
        self.builders: dict[str, Callable[[Signature], tuple[Call, int]]] = {
            "copy:h2h": self._build_copy,
            "host:read": self._build_read,
            "host:fill": self._build_fill,
            "host:chase": self._build_pointer_chase,
            "compute:aten::mm": self._build_product,
            "compute:aten::add": self._build_sum,
        }
        self.calls: dict[str, tuple[Call, int]] = {}
        self.settings: dict[str, int | str] = {}
        self.affinity: set[int] = set()

    def probe(self) -> Ready | Missing:
        """Copy a page and walk a pointer chain to find out if the driver works here."""
        try:
            page = np.zeros(4096, np.uint8)
            MOVE(page.ctypes.data, page.ctypes.data, 4096)
            ring = pointer_chase.pointer_ring(4096, seed=0)
            pointer_chase.machine_code_loop()(ring.ctypes.data, 64)
            os.sched_getaffinity(0)
        except DriverFault as fault:
            cure = "bind a recording instead"
            if fault.kind == "denied":
                return Missing("denied", fault.message, cure)
            return Missing("unsupported", fault.message, cure)
        except (OSError, AttributeError) as error:
            return Missing("unsupported", f"{type(error).__name__}: {error}", "run it on Linux")
        cores = tuple(f"core{i}" for i in sorted(os.sched_getaffinity(0), reverse=True))
        return Ready(cores, {"numpy": np.__version__, **conditions.constant_machine_facts()})

    def open(self, spec: Spec) -> None:
        """Lock a core and pin this process to it."""
        settings = checked(spec, SETTINGS)
        check_choice(settings, "clock", READERS)
        check_choice(settings, "sharing", get_args(Sharing))
        self.affinity = os.sched_getaffinity(0)
        core = max(self.affinity) if settings["core"] < 0 else settings["core"]
        if core not in self.affinity:
            raise DriverFault(
                "missing",
                f"core {core} is not available to this process; use one of {sorted(self.affinity)}",
            )
        self.lock_device = lock_device(f"core{core}")
        self.lock_device.__enter__()
        os.sched_setaffinity(0, {core})
        self.settings, self.clock = {**settings, "core": core}, settings["clock"]
        self.sharing = settings["sharing"]
        self.random = np.random.default_rng(settings["seed"])
        self.chase = pointer_chase.machine_code_loop()
        self.scratch = np.zeros(FLUSH, np.uint8)

    def describe(self) -> dict[str, str]:
        """Provenance: core, machine, NumPy and its BLAS."""
        device = (
            f"{conditions.constant_machine_facts().get('cpu', 'cpu')} core{self.settings['core']}"
        )
        return {
            "device": device,
            "numpy": np.__version__,
            "threads": os.environ.get("OPENBLAS_NUM_THREADS", "all"),
            **_blas_version(),
            **conditions.constant_machine_facts(),
        }

    def together(self, requests: Sequence[Request]) -> list[Sample]:
        """Samples of all ops running concurrently on one core, each op with its own buffers."""
        if any(r.key[1] != WARM for r in requests):
            message = "concurrent ops are always warm; set ops: {context: warm}"
            raise DriverFault("unsupported", message)
        built = [self._build(r.signature) for r in requests]
        calls, per = [call for call, _ in built], [n for _, n in built]
        for call in calls:
            call()
        rounds = min(r.n for r in requests)
        ns = np.array([completion_times(calls, READERS[self.clock]) for _ in range(rounds)], float)
        return [
            Sample(r.signature, ns[:, i] / per[i], self.clock, self.metric, WARM)
            for i, r in enumerate(requests)
        ]

    def close(self) -> None:
        """Restore the process's CPU affinity and release the core's lock."""
        if self.affinity:
            os.sched_setaffinity(0, self.affinity)
            self.lock_device.__exit__(None, None, None)
            self.affinity = set()

    def time_op(self, request: Request) -> Sample:
        """Sample of one op that runs alone; its memory is freed before the next op."""
        call, per = self._callable_of(request.signature)
        preceding = [self._callable_of(s)[0] for s in request.preceding]
        call()
        ns, facts = time_call(
            call, request, self.clock, context_restorer(request, self._flush_caches, preceding)
        )
        self.calls.clear()
        facts["inner"] *= per
        return self.sample(request, ns / per, facts=facts)

    def _callable_of(self, signature: str) -> tuple[Call, int]:
        """Function that executes an op, and the number of times that one call executes it."""
        if signature not in self.calls:
            self.calls[signature] = self._build(signature)
        return self.calls[signature]

    def _build(self, signature: str) -> tuple[Call, int]:
        return self.builders[signature_head(signature)](
            parse_within_cap(signature, int(self.settings["cap"]))
        )

    def _flush_caches(self) -> None:
        self.scratch += 1

    def _buffer(self, n: int) -> Buffer:
        """New buffer of n bytes whose pages are already allocated."""
        return np.ones(n, np.uint8)

    def _build_copy(self, parts: Signature) -> tuple[Call, int]:
        n = _bytes(parts)
        a, b = self._buffer(n), self._buffer(n)
        return _keep_alive(partial(MOVE, a.ctypes.data, b.ctypes.data, n), a, b), 1

    def _build_read(self, parts: Signature) -> tuple[Call, int]:
        n = _bytes(parts)
        a = self._buffer(n)  # looks for a byte that is not there
        return _keep_alive(partial(FIND, a.ctypes.data, 0, n), a), 1

    def _build_fill(self, parts: Signature) -> tuple[Call, int]:
        n = _bytes(parts)
        a = self._buffer(n)
        return _keep_alive(partial(SET, a.ctypes.data, 1, n), a), 1

    def _build_pointer_chase(self, parts: Signature) -> tuple[Call, int]:
        n = _bytes(parts)
        if n % pointer_chase.LINE or n < pointer_chase.LINE:
            raise DriverFault("unsupported", f"{parts}: give a multiple of {pointer_chase.LINE} B")
        words = pointer_chase.pointer_ring(n, int(self.settings["seed"]))
        at = [words.ctypes.data]

        def walk() -> None:
            at[0] = self.chase(at[0], STEPS)

        for _ in range(
            1 + n // pointer_chase.LINE // STEPS
        ):  # once around, so that warm means warm
            walk()
        return _keep_alive(walk, words), STEPS

    def _build_product(self, parts: Signature) -> tuple[Call, int]:
        if len(parts.operands) != 2 or any(len(o.shape) != 2 for o in parts.operands):
            raise DriverFault("unsupported", f"{parts}: give two matrices")
        a, b = (self._matrix(o.shape, o.dtype) for o in parts.operands)
        if a.shape[1] != b.shape[0]:
            raise DriverFault("unsupported", f"{parts}: the columns of the first matrix are not "
                              "the rows of the second; correct the shapes")  # fmt: skip
        return partial(np.matmul, a, b, out=np.empty((a.shape[0], b.shape[1]), a.dtype)), 1

    def _build_sum(self, parts: Signature) -> tuple[Call, int]:
        a, b = (self._matrix(o.shape, o.dtype) for o in parts.operands)
        return partial(np.add, a, b, out=np.empty_like(a)), 1

    def _matrix(self, shape: Sequence[int], dtype: str) -> NDArray[np.floating]:
        if dtype not in DTYPES:
            raise DriverFault("unsupported", f"NumPy has no {dtype}; give fp32 or fp64")
        return self.random.standard_normal(shape).astype(DTYPES[dtype])


def _bytes(parts: Signature) -> int:
    if not parts.operands or parts.operands[0].dtype not in WIDTH:
        raise DriverFault("unsupported", f"{parts}: has no operand; give one, such as uint8[4096]")
    return int(parts.operands[0].bytes)


def _keep_alive(call: Call, *kept: object) -> Call:
    """Wrap a call so that the buffers whose addresses it uses are not freed."""

    def kept_call(_kept: tuple[object, ...] = kept) -> object:
        return call()

    return kept_call


def _blas_version() -> dict[str, str]:
    """Name and version of NumPy's BLAS; empty before NumPy 1.25, which can only print it."""
    try:
        settings = np.show_config(mode="dicts") or {}
    except TypeError:
        return {}
    found = settings.get("Build Dependencies", {}).get("blas", {})
    return {"blas": f"{found.get('name', '?')} {found.get('version', '')}".strip()}
