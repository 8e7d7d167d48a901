"""The bubble that a run measures is that of the papers where all passes take as long."""

import numpy as np
import pytest
from foretrace.models.training.description.description import TokenOptions, Transformer
from foretrace.models.training.plan.bubble import bubble_shares
from foretrace.models.training.plan.parallel_plan import ParallelPlan
from foretrace.models.training.program.step_graph import step_graph
from foretrace.sim.analysis.periods import counted_edges
from foretrace.sim.facts.backend import Backend, Timing
from foretrace.sim.facts.system import Component, System
from foretrace.sim.run.simulation import Simulation

UNTIED = TokenOptions(tied=False)
MODEL = Transformer(hidden=64, layers=8, heads=8, vocabulary=128, inner=256, tokens=UNTIED)


class OnePass(Backend):
    """Attention takes a second forward and one backward, its last product's weights another."""

    source, uniform = "test", True
    words = ("flash_attention", "attention_backward", "mm bf16[64x32] bf16[32x64]")

    def timing(self, ops, now=0.0):
        table = [float(any(w in text for w in self.words)) for text in ops.signatures]
        return Timing.of(np.array([*table, 0.0])[ops.signature])


def bubble(keep="ranks", steps=2, **changes):
    plan = ParallelPlan(batch=8, sequence=32, **changes)
    graph = step_graph(MODEL, plan, steps=steps)
    gpus = tuple(Component(f"node0.gpu{k}", "gpu", slots=128) for k in range(graph.ranks))
    fabric = Component("fabric", "fabric")
    system = System((*gpus, fabric), tuple(g.name for g in gpus), fabric="fabric")
    result = Simulation(system, {"*": OnePass()}).run(graph, keep=keep)
    return bubble_shares(result, counted_edges(result), plan.pipeline)


F = I = W = 1.0  # s of a micro-batch's passes through a stage, by the stage's share
PAPERS = [
    ("gpipe", 1, lambda p: (p - 1) * (F + I + W)),  # Narayanan et al. 2021, 2104.04473, 2.2.1
    ("1f1b", 1, lambda p: (p - 1) * (F + I + W)),
    ("1f1b", 2, lambda p: (p - 1) * (F + I + W) / 2),  # section 2.2.2
    ("zb-h1", 1, lambda p: (p - 1) * (F + I - W)),  # Qi et al. 2023, 2401.10241, section 2.3
    ("dualpipe", 1, lambda p: (p / 2 - 1) * (F + 2 * I + 2 * W - 3 * W)),  # 2412.19437, table 2
]


@pytest.mark.parametrize(("schedule", "chunks", "formula"), PAPERS)
@pytest.mark.parametrize("p", [2, 4])
@pytest.mark.parametrize("keep", ["ranks", "ops"])
def test_the_bubble_is_the_one_of_its_paper(schedule, chunks, formula, p, keep):
    told = bubble(keep, pipeline=p, schedule=schedule, chunks=chunks)
    idle = formula(p)
    assert told == pytest.approx([idle / (8 * (F + I + W) + idle)] * 2)


@pytest.mark.parametrize("schedule", ["zb-h2", "zb-v"])
def test_between_two_iterations_a_schedule_without_bubbles_has_none(schedule):
    """Stages do not wait for each other's optimizer: Qi et al. 2023, section 4."""
    first, between, _ = bubble(steps=3, pipeline=4, schedule=schedule)
    assert first > 0
    assert between == 0


def test_without_a_pipeline_there_is_no_bubble():
    assert bubble(data=2).tolist() == [0, 0]


def test_where_no_time_by_box_was_kept_nothing_is_said():
    assert bubble("none", pipeline=2) is None
