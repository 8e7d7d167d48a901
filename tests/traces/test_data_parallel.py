"""The step of one process made data-parallel: what DDP adds to it."""

from pathlib import Path

import foretrace
import numpy as np
import pytest
from foretrace.sim.ops import Kind
from foretrace.traces import native
from foretrace.traces.transform.data_parallel import Core, data_parallel

DATA = Path(foretrace.__file__).parent / "traces" / "data"
MEBIBYTE = 2**20


def test_a_library_that_works_on_the_core_leaves_it_free_while_the_wire_is_busy():
    """gloo between processors: an all-reduce takes its own time off the core, and no more."""
    trace = native.read(DATA / "gpt")
    graph = trace.graph()
    held, shared = (
        data_parallel(trace, graph, copy_rate=2e10, in_flight=2, bucket=4 * MEBIBYTE, core=core)
        for core in (None, Core(1e-3, 2e9))
    )
    streams = {name for key, name in held.streams.items() if key not in shared.streams}
    assert streams == {"compute"}
    assert set(shared.streams) == set(graph.streams)
    ops = shared.explicit.ops
    reduced = ops.bytes[ops.kind == Kind.COLLECTIVE]
    names = [shared.label(i).name for i in range(len(ops))]
    own = ops.duration[[name == "all-reduce, on the core" for name in names]]
    assert np.sort(own) == pytest.approx(np.sort(1e-3 + reduced / 2e9))
    assert len(ops) == len(held.explicit) + len(reduced)
