"""A chain: the first link that knows an op answers it."""

import numpy as np
import pytest
from foretrace.models.compute.chain import Chain, largest_ops
from foretrace.models.compute.families import Families, FittedLine
from foretrace.models.compute.gpu_groups import Peaks
from foretrace.models.compute.host import Host
from foretrace.models.compute.recorded import Recorded
from foretrace.models.compute.roofline import Roofline
from foretrace.models.compute.table import MeasuredTable
from foretrace.models.memory.copy import Copy
from foretrace.models.memory.memory import Memory
from foretrace.models.network.part.link import Link
from foretrace.models.network.topology.topology import GpuSpec, NodeSpec, cluster
from foretrace.sim.errors import BackendError
from foretrace.sim.facts.backend import Backend, Holds, Spread, Timing
from foretrace.sim.facts.doubt import Doubt
from foretrace.sim.facts.graph import Builder
from foretrace.sim.facts.ops import Kind, Ops
from foretrace.sim.facts.system import Component, System
from foretrace.sim.run.simulation import Simulation

TEXTS = ("compute:mm bf16[8x8]", "compute:mm fp8[8x8]", "compute:softmax fp32[8]", "copy:fill")
NAN = float("nan")


def roofline():
    return Roofline(bandwidth=1e9, peaks=Peaks(bf16=1e12))


class Says(Backend):
    """One number for some signatures, with what a timing may hold besides."""

    def __init__(self, seconds, known, **more):
        self.seconds, self.known, self.more = seconds, known, more
        self.source = f"says {seconds:g}"

    def knows(self, ops):
        return np.isin(ops.signature, self.known)

    def timing(self, ops, now=0.0):
        assert self.knows(ops).all()
        return Timing.of(np.full(len(ops), self.seconds), **self.more)


def test_the_first_backend_that_knows_an_op_times_it():
    chain = Chain.of(Says(1.0, [0]), Says(2.0, [0, 2]), Recorded())
    ops = Ops.of(signature=[2, 0, 1, -1, 0], duration=9.0, signatures=TEXTS)
    timing = chain.timing(ops)
    assert timing.fixed.tolist() == [2, 1, 9, 9, 1]
    assert [timing.source[i] for i in range(5)] == [
        "says 2", "says 1", "recorded: trace", "recorded: trace", "says 1",
    ]  # fmt: skip


def test_unknown_ops_are_refused_with_the_largest_and_a_remedy():
    ops = Ops.of(signature=[0, 1, 2, 2], duration=[1, 5, 3, 3], signatures=TEXTS)
    told = (
        r"op 2 \(compute:softmax fp32\[8\], compute:mm fp8\[8x8\]\): no backend of the chain "
        r"\(table, roofline\) can time them; add .* 'recorded' as the last link"
    )
    table = MeasuredTable.of(TEXTS[:1], [1.0])
    with pytest.raises(BackendError, match=told):
        Chain.of(table, roofline()).timing(ops)


def test_a_chain_without_links_is_refused():
    with pytest.raises(BackendError, match="has no links; name at least one backend"):
        Chain.of()


@pytest.mark.parametrize(
    ("backend", "known"),
    [
        (Backend(), [True, True, True, True]),
        (Recorded(), [True, False, True, True]),
        (Host(), [True, False, True, True]),
        (Host(dispatch=1e-6), [True, True, True, True]),
        (roofline(), [True, False, False, True]),
        (MeasuredTable.of(TEXTS[2:3], [1.0]), [False, False, True, False]),
        (Families.of({"copy:fill": FittedLine()}), [False, False, False, True]),
        (Copy(), [False, False, False, True]),
    ],
)
def test_a_backend_knows_what_it_can_answer(backend, known):
    ops = Ops.of(
        kind=[0, 0, 0, 2], signature=[0, 1, 2, 3], duration=[1, NAN, 1, 1], flop=[1, 1, NAN, NAN],
        bytes=1.0, signatures=TEXTS,
    )  # fmt: skip
    assert backend.knows(ops).tolist() == known


def test_a_table_knows_sizes_between_those_that_were_measured():
    table = MeasuredTable.of(["compute:mm fp32[8]", "compute:mm fp32[32]"], [1.0, 4.0])
    texts = ("compute:mm fp32[16]", "compute:mm fp32[64]", "compute:mm bf16[16]")
    ops = Ops.of(signature=[0, 1, 2, -1], signatures=texts)
    assert table.knows(ops).tolist() == [True, False, False, False]
    table.outside = "warn"
    assert table.knows(ops).tolist() == [True, True, False, False]


def test_usage_and_holds_of_a_link_stay_with_their_ops():
    node = NodeSpec(
        gpus=1,
        gpu=GpuSpec(hbm=Memory(bandwidth=1e12, latency=0.0), copy_engines=1),
        host_link=Link(bandwidth=1e10, latency=1e-6),
    )
    system = cluster(1, node)
    gpu, hbm = system.number("node0.gpu0"), system.number("node0.gpu0.hbm")
    shared = Roofline(bandwidth=1e12, peaks=Peaks(bf16=1e14), shared=True)
    holding = Says(1.0, [2], holds=Holds.of([[(hbm, 5, -1)]]))
    chain = Chain.of(holding, shared)
    chain.open(system)
    ops = Ops.of(signature=[0, 2, 0], flop=1e9, bytes=[1e6, NAN, 2e6], signatures=TEXTS)
    timing = chain.timing(ops.with_placement(system, gpu))
    assert timing.work.tolist() == [1e6, 0, 2e6]
    assert timing.usage.indptr.tolist() == [0, 1, 1, 2]
    assert timing.holds.indptr.tolist() == [0, 0, 1, 1]


def test_doubt_and_spread_are_of_the_link_that_answers():
    doubt, spread = Doubt("gemm", "memory", (-0.1, 0.1)), Spread(np.ones(2), np.ones(2))
    chain = Chain.of(Says(1.0, [0], doubt=doubt), Says(1.0, [1], spread=spread), Recorded())
    timing = chain.timing(Ops.of(signature=[2, 0, 1], duration=1.0, signatures=TEXTS))
    assert [timing.doubt[i] for i in range(3)] == [None, doubt, None]
    assert [timing.spread[i] for i in range(3)] == [None, None, spread]
    assert timing.doubt.codes.dtype == np.int16


def test_a_run_keeps_the_doubt_and_the_source_of_each_op():
    doubt = Doubt("gemm", "memory", (-0.1, 0.1))
    build = Builder("two")
    for text in (TEXTS[0], TEXTS[2]):
        build.op(Kind.COMPUTE, signature=text, duration=2.0)
    system = System((Component("g", "gpu", slots=1),), ("g",), {})
    chain = Chain.of(Says(1.0, [0], doubt=doubt), Recorded())
    result = Simulation(system, {"g": chain}).run(build.graph())
    assert result.sources == {"says 1": 1.0, "recorded: trace": 2.0}
    answers = result.runs[0].answers
    assert answers.doubt.tolist() == [0, -1]
    assert answers.doubts == (doubt,)


def test_a_chain_of_uniform_backends_is_uniform():
    system = System((Component("a", "gpu", slots=1), Component("b", "gpu", slots=1)))
    assert Chain.of(roofline(), Recorded()).timing_groups(system).tolist() == [0, 0]
    assert Chain.of(Copy(), Recorded()).timing_groups(system).tolist() == [0, 0]
    assert Chain.of(Says(1.0, []), Recorded()).timing_groups(system) is None


def test_the_largest_ops_come_first():
    ops = Ops.of(signature=[0, 1, 1, 3], kind=[0, 0, 0, 2], signatures=TEXTS)
    found = largest_ops(ops, np.arange(4), np.array([3.0, 2.0, 2.0, NAN]))
    assert [(o.text, o.ops, o.seconds) for o in found] == [
        (TEXTS[1], 2, 4.0), (TEXTS[0], 1, 3.0), (TEXTS[3], 1, 0.0),
    ]  # fmt: skip
