"""Communication ops use the slots of their stream's role."""

from foretrace.sim.facts.graph import Builder, Member
from foretrace.sim.facts.ops import Kind
from foretrace.sim.facts.place import place
from foretrace.sim.facts.system import Component, System
from hypothesis import given
from hypothesis import strategies as st

RANKS = 3
GPUS = tuple(f"gpu{r}" for r in range(RANKS))
PARTS = {gpu: {"host": f"host{r}", "dma": f"dma{r}"} for r, gpu in enumerate(GPUS)}
SYSTEM = System(
    tuple(
        Component(name, "gpu", slots=1)
        for gpu in GPUS
        for name in (gpu, PARTS[gpu]["host"], PARTS[gpu]["dma"])
    ),
    GPUS,
    PARTS,
)
STREAMS = st.tuples(st.integers(0, RANKS - 1), st.integers(-2, 3))
KINDS = st.sampled_from(["host", "compute", "copy", "network"])


@given(st.lists(STREAMS, min_size=1), st.dictionaries(STREAMS, KINDS))
def test_communication_uses_the_slots_of_its_streams_role(placed, kinds):
    """Streams of different ranks are independent, and a stream may have a role but no ops."""
    build = Builder("some")
    for rank, stream in placed:
        build.op(Kind.SEND, rank=rank, stream=stream, peer=(rank + 1) % RANKS, bytes=1.0)
    build.collective([Member(r, 1) for r in range(RANKS)])
    for (rank, stream), kind in kinds.items():
        build.set_stream_kind(rank, stream, kind)
    graph = place(build.graph(), SYSTEM)
    block, found = graph.explicit, []
    for rank, stream in zip(block.rank.tolist(), block.stream.tolist(), strict=True):
        role = graph.role(rank, stream)
        part = {"gpu": GPUS[rank], **PARTS[GPUS[rank]]}.get(role)
        found.append(-1 if part is None else SYSTEM.number(part))
    assert block.slot.tolist() == found
