"""Record this machine's memory, GEMMs and torch ops with the drivers of ``hil/``.

``python -m foretrace.calibration.record.devices LIST OUT [--python PYTHON]``, with LIST ``host``,
``sizes``, ``gpt``, ``resnet50``, ``shapes``, ``rare`` or ``cold``; PYTHON has torch and foretrace.
One core, one thread, the CPU clock; jemalloc that keeps freed memory, as in ``training_steps.py``.

The lists of models contain the ops of the bundled trace, families of shapes around them, its ops
again after their predecessors in the graph, the graph's ops in order (``compute:graph``), and real
training steps (``compute:step``), interleaved in the same process starts. The other lists belong to
no model: ``rare`` has shapes of families with few shapes, ``cold`` some of both, with warm and with
flushed caches.
"""

import argparse
import ctypes.util
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from foretrace.hil.agent.address import Address
from foretrace.hil.agent.client import RemoteDriver
from foretrace.hil.agent.local_agent import agent_command
from foretrace.hil.agent.transport import start_agent_process
from foretrace.hil.measuring import conditions
from foretrace.hil.measuring.measurement import measure
from foretrace.hil.measuring.work_list import WorkList
from foretrace.hil.recording import SUFFIX
from foretrace.hil.sample import COLD, WARM, Request
from foretrace.scenarios.studies.run.op_selection import convolution_strides
from foretrace.sim.facts.signature import parse_signature

from .shapes import alike, families, host, images, rare, shapes, sizes

STEPS = Path(__file__).with_name("step_driver.py")
BUSY = 3.0  # others may use the machine, as they do; each sample has the load
BEFORE = {"gpt": 12, "resnet50": 3}  # ops that restore what the caches hold; more are larger
LISTS = ("host", "sizes", "gpt", "resnet50", "shapes", "rare", "cold")
ON_HOST = {"host": host, "sizes": sizes}
COLD_OPS = 70
KEEP_MEMORY = "dirty_decay_ms:-1,muzzy_decay_ms:-1"


def recorded(name: str) -> tuple[list[str], list[str]]:
    """All ops of a bundled trace, and the ops of its third iteration in order."""
    from foretrace.scenarios.workloads.trace_files import open_trace

    ops = open_trace(f"foretrace:{name}").graph().ops
    rows = np.flatnonzero(ops.period == 3)
    return sorted(set(ops.signatures)), [ops.signature_text(int(r)) for r in rows]


def preceded(graph: list[str], before: int) -> dict[str, tuple[str, ...]]:
    """Distinct ops of a graph, with the ops directly before their first occurrence."""
    first = {signature: i for i, signature in reversed(list(enumerate(graph))) if i >= before}
    return {s: tuple(graph[i - before : i]) for s, i in first.items()}


def work(name: str, repeats: int, seconds: float, starts: int = 4) -> WorkList:
    """Work list of this name."""
    limits = {"starts": starts, "most_starts": starts, "blocks": 4, "seconds": seconds}
    limits |= {"busy": BUSY}
    if name in ON_HOST:
        asked = tuple(Request(s, repeats) for s in ON_HOST[name]())
        return WorkList("host", asked, **limits)
    if name in ("gpt", "resnet50"):
        asked, spec = of_model(name, repeats)
        return WorkList("torch-zoo", asked, spec, **limits)
    return WorkList("torch", of_no_model(name, repeats), **limits)


def of_no_model(name: str, repeats: int) -> tuple[Request, ...]:
    """Requests for shapes that no recorded model uses."""
    if name == "shapes":
        return tuple(Request(s, repeats) for s in shapes())
    used = {parse_signature(s).operands for m in BEFORE for s in recorded(m)[0] if s}
    others = rare(used)
    if name == "rare":
        return tuple(Request(s, repeats) for s in others)
    some = alike(
        [s for s in shapes() if parse_signature(s).operands not in used] + others, COLD_OPS
    )
    return tuple(Request(s, repeats, how) for s in some for how in (WARM, COLD))


def of_model(name: str, repeats: int) -> tuple[tuple[Request, ...], dict[str, Any]]:
    """Requests for a model's ops alone and in context, shapes around them, and complete steps."""
    from foretrace.hil.drivers.pytorch.torch_device import TorchDriver

    every, once = recorded(name)
    able = TorchDriver()
    strides = convolution_strides(every)
    around = families() if name == "gpt" else images()
    known = [s for s in every if s and able.answers(s) and _is_complete(s, strides)]
    asked = [Request(s, repeats) for s in dict.fromkeys([*known, *around])]
    asked += [Request(f"compute:graph {name}", 2), Request(f"compute:step {name}", 2)]
    graph = [s for s in once if s in set(known)]
    context = preceded(graph, BEFORE[name])
    asked += [Request(s, repeats, "after", before) for s, before in context.items()]
    return tuple(asked), {"strides": strides, "graphs": {name: graph}}


def _is_complete(signature: str, strides: dict[str, int]) -> bool:
    """True if a signature has all it needs: the stride of a convolution, operands of a
    concatenation.
    """
    if "cat" in signature.split() or signature == "compute:aten::cat":
        return False
    forward = ("conv" in signature) and "backward" not in signature
    return not forward or signature in strides


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("list", choices=LISTS)
    parser.add_argument("out", type=Path)
    parser.add_argument("--python", default="")
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=165.0)
    parser.add_argument("--starts", type=int, default=4)
    args = parser.parse_args()
    asked = work(args.list, args.repeats, args.seconds, args.starts)
    preload = {"LD_PRELOAD": str(ctypes.util.find_library("jemalloc")), "MALLOC_CONF": KEEP_MEMORY}

    def opener() -> RemoteDriver:
        wait_for_idleness(patience=10)
        if args.list in ON_HOST:
            return RemoteDriver(Address().open(), "host")
        load = (str(STEPS),)
        address = Address("torch", python=args.python, load=load, environment=preload)
        if args.python:  # that Python has the whole package, which the steps need
            command = [args.python, *agent_command()[1:], "--stdio", "--load", str(STEPS)]
            return RemoteDriver(
                start_agent_process(command, {**threads(), **preload}), asked.driver
            )
        return RemoteDriver(address.open(), asked.driver)

    kept = measure(asked, opener, lambda text: print(text, file=sys.stderr, flush=True))
    kept = replace(kept, driver=asked.driver.partition("-")[0], note=" ".join(sys.argv[1:2]))
    path = args.out / f"{args.list}-{kept.date[:10]}{SUFFIX}"
    kept.write(path)
    print(path, len(kept.samples), "samples", kept.ended, path.stat().st_size, "B")


def wait_for_idleness(patience: int) -> None:
    """Wait until other processes are idle for a second, or ``patience`` ends."""
    for _ in range(patience):
        if conditions.cores_used_by_others(1.0) < 0.3:
            return


def threads() -> dict[str, str]:
    from foretrace.hil.agent.local_agent import ONE_THREAD

    return ONE_THREAD


if __name__ == "__main__":
    main()
