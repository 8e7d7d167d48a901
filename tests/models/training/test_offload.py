"""An optimizer on the host: what is copied, what takes which memory, and when it runs."""

from dataclasses import replace

import numpy as np
import pytest
from foretrace.models.training.description.description import Transformer
from foretrace.models.training.layer.precision import PRECISIONS
from foretrace.models.training.plan.memory_fit import host_memory, require_fit, require_host_fit
from foretrace.models.training.plan.parallel_plan import ParallelPlan
from foretrace.models.training.plan.rank_memory import rank_memory
from foretrace.models.training.plan.stages import stage_weights
from foretrace.models.training.program.stage_program import StageProgram
from foretrace.sim.errors import ScenarioError
from foretrace.sim.facts.ops import Kind

GPT = Transformer(hidden=256, layers=4, heads=8, vocabulary=512, inner=1024)
PLAN = ParallelPlan(batch=8, sequence=64, precision=PRECISIONS["fp16"], offload=True, bucket=10**6)
PSI = stage_weights(GPT, PLAN, 0)[0]


def moved(plan, kind):
    ops = StageProgram(GPT, plan, 0).program().ops
    return float(ops.bytes[ops.kind == kind].sum())


@pytest.mark.parametrize("zero", [0, 2, 3])
def test_four_bytes_a_parameter_go_over_the_bus(zero):
    """4 M in all, each rank its share: Ren et al. 2021, arXiv:2101.06840, sections 3.2 and 4.2."""
    plan = replace(PLAN, data=8, zero=zero)
    assert moved(plan, Kind.COPY) == pytest.approx(4 * PSI / (8 if zero else 1), rel=1e-3)


def test_adam_reads_and_writes_all_states_and_writes_weights():
    """14 M read, 12 M and 2 M of weights written: Ren et al., section 3.1, figure 2."""
    assert moved(PLAN, Kind.HOST) == (2 + 12 + 12 + 2) * PSI


def test_the_host_holds_fourteen_bytes_a_parameter_and_the_gpu_no_optimizer():
    """14 M of 16 M: Ren et al., table 1 (gradients stay on the GPU, too, here)."""
    told = rank_memory(GPT, PLAN, 0, reserve=0)
    assert (told.host, told.optimizer) == (14 * PSI, 0)
    assert told.weights + told.gradients == 4 * PSI


def test_a_rank_of_eight_has_an_eighth_of_it():
    assert host_memory(GPT, replace(PLAN, data=8), gpus=8) == 8 * 14 * PSI
    assert host_memory(GPT, replace(PLAN, data=8, zero=1), gpus=8) == pytest.approx(14 * PSI)
    assert host_memory(GPT, replace(PLAN, data=8, zero=1), gpus=4) == pytest.approx(7 * PSI)


def test_buckets_are_copied_while_others_are_updated():
    program = StageProgram(GPT, PLAN, 0).program()
    rows = np.flatnonzero(np.isin(program.ops.kind, (Kind.COPY, Kind.HOST)))
    count = -(-PSI // 10**6)
    assert len(rows) == 3 * count > 3
    first, down, up = rows[:1], rows[3::3], rows[2::3]
    after = {int(r): set(program.successors.take(np.array([r])).values.tolist()) for r in rows}
    assert down[0] in after[first[0]]  # the next bucket's gradients follow the first one's
    assert all(u not in after[int(d)] for d, u in zip(down, up[1:], strict=True))


def test_what_the_host_has_no_room_for_is_refused_with_the_zero_that_fits():
    plan = replace(PLAN, data=8)
    with pytest.raises(
        ScenarioError, match=r"workload.memory.offload: does not fit: .* take parallel.zero: 1"
    ):
        require_host_fit(GPT, plan, 15 * PSI, 8)
    require_host_fit(GPT, replace(plan, zero=1), 15 * PSI, 8)
    with pytest.raises(ScenarioError, match="the memory of a machine's host is unknown"):
        require_host_fit(GPT, plan, None, 8)


def test_offloading_is_a_cure_where_the_host_is_known_to_have_room():
    plan = replace(PLAN, offload=False)
    need = rank_memory(GPT, replace(plan, offload=True), 0).peak
    with pytest.raises(ScenarioError, match=r"it fits with memory.offload: optimizer$"):
        require_fit(GPT, plan, need, host=(15.0 * PSI, 8))
    with pytest.raises(ScenarioError, match=r"does not fit") as caught:
        require_fit(GPT, plan, need, host=(13.0 * PSI, 8))
    assert "offload" not in str(caught.value)
