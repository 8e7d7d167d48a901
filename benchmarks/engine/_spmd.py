"""Workload W-3D: an SPMD training step with pipeline, tensor and data parallelism.

There is one program per pipeline stage (1F1B). A layer has 6 kernels and 2 tensor-parallel
all-reduces forward, 12 and 2 backward. Stages send activations and gradients to each other. The
gradients of each layer are all-reduced over the data-parallel group at the end. With 12 layers per
stage and 64 micro-batches, a rank runs about 17,000 ops, and 256 x 8 x 8 ranks run 281 million.
"""

from dataclasses import dataclass, field

import numpy as np
from foretrace.sim.facts.graph import Graph
from foretrace.sim.facts.ops import Kind, Ops
from foretrace.sim.facts.spmd.spmd_graph import RankProgram, SpmdGraph

TENSOR, DATA = 0, 1  # families of groups
FORWARD, BACKWARD = 0, 1  # families of peers
ALL_REDUCE, GRADIENTS, MESSAGE = 40e-6, 2e-3, 100e-6  # s
BYTES = {
    (Kind.COLLECTIVE, TENSOR): 16e6, (Kind.COLLECTIVE, DATA): 100e6,
    (Kind.SEND, FORWARD): 16e6, (Kind.SEND, BACKWARD): 16e6,
}  # fmt: skip
_RNG = np.random.default_rng(5)
FORWARD_KERNELS = _RNG.uniform(20e-6, 200e-6, 6).round(12)  # s
BACKWARD_KERNELS = _RNG.uniform(20e-6, 300e-6, 12).round(12)


@dataclass
class Stage:
    """Builder of the program of one pipeline stage, op by op."""

    stage: int
    stages: int
    layers: int
    rows: list[tuple[Kind, int, float]] = field(default_factory=list)

    def layer(self, kernels: np.ndarray) -> None:
        """Add a layer: two halves, each followed by a tensor-parallel all-reduce."""
        for half in np.split(kernels, 2):
            self.rows += [(Kind.COMPUTE, -1, t) for t in half.tolist()]
            self.rows.append((Kind.COLLECTIVE, TENSOR, ALL_REDUCE))

    def forward(self) -> None:
        if self.stage:
            self.rows.append((Kind.RECV, FORWARD, 0.0))
        for _ in range(self.layers):
            self.layer(FORWARD_KERNELS)
        if self.stage < self.stages - 1:
            self.rows.append((Kind.SEND, FORWARD, MESSAGE))

    def backward(self) -> None:
        if self.stage < self.stages - 1:
            self.rows.append((Kind.RECV, BACKWARD, 0.0))
        for _ in range(self.layers):
            self.layer(BACKWARD_KERNELS)
        if self.stage:
            self.rows.append((Kind.SEND, BACKWARD, MESSAGE))

    def program(self, batches: int) -> RankProgram:
        """Complete 1F1B program: one forward pass per later stage, then alternating passes."""
        ahead = min(batches, self.stages - self.stage - 1)
        for _ in range(ahead):
            self.forward()
        for _ in range(batches - ahead):
            self.forward()
            self.backward()
        for _ in range(ahead):
            self.backward()
        self.rows += [(Kind.COLLECTIVE, DATA, GRADIENTS)] * self.layers
        kind, family, duration = zip(*self.rows, strict=True)
        joint = np.array(kind) == Kind.COLLECTIVE
        ops = Ops.of(
            kind=kind,
            duration=duration,
            bytes=[BYTES.get((k, f), 0.0) for k, f in zip(kind, family, strict=True)],
            signature=np.where(joint, 0, -1),
            signatures=("collective:all-reduce",),
        )
        return RankProgram.chain(ops, family)


def template(data: int, stages: int, tensor: int, layers: int, batches: int) -> SpmdGraph:
    """SPMD graph; rank ``(d x stages + s) x tensor + t`` is tensor rank t of stage s of copy d."""
    d, s, t = (a.ravel() for a in np.indices((data, stages, tensor)))
    rank = np.arange(len(d))
    forward = np.where(s < stages - 1, rank + tensor, -1)
    backward = np.where(s > 0, rank - tensor, -1)
    return SpmdGraph(
        tuple(Stage(i, stages, layers).program(batches) for i in range(stages)),
        s.astype(np.int32),
        groups=np.array([d * stages + s, s * tensor + t], np.int32),
        peers=np.array([forward, backward], np.int32),
    )


def graph(data: int, stages: int, tensor: int, layers: int, batches: int) -> Graph:
    """Training step as a graph with one SPMD block."""
    name = f"W-3D({data}, {stages}, {tensor})"
    return Graph(name, (template(data, stages, tensor, layers, batches),))
