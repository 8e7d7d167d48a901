"""Pipeline schedules and the textbook: bubbles of a step whose passes all take the same time."""

import numpy as np
import pytest
from foretrace.models.training.schedules import turns_of_stage

FORWARD, BACKWARD = 1.0, 2.0  # s of one micro-batch through one stage


def makespan(schedule, stages, micro_batches, chunks=1):
    """Seconds of a step: each turn waits for the stage before it, and for its stage's last turn."""
    turns = [turns_of_stage(schedule, s, stages, micro_batches, chunks) for s in range(stages)]
    ended, free, at = {}, [0.0] * stages, [0] * stages
    while any(at[s] < len(turns[s]) for s in range(stages)):
        moved = False
        for s in range(stages):
            if at[s] == len(turns[s]):
                continue
            turn = turns[s][at[s]]
            place = turn.chunk * stages + s
            before = (turn.forward, turn.micro_batch, place - 1 if turn.forward else place + 1)
            first = place == 0 if turn.forward else place == stages * chunks - 1
            if not first and before not in ended:
                continue
            begin = max(free[s], 0.0 if first else ended[before])
            free[s] = begin + (FORWARD if turn.forward else BACKWARD) / chunks
            ended[turn.forward, turn.micro_batch, place] = free[s]
            at[s], moved = at[s] + 1, True
        assert moved, "stages wait for each other"
    return max(free)


@pytest.mark.parametrize("schedule", ["gpipe", "1f1b"])
@pytest.mark.parametrize(("p", "m"), [(1, 3), (2, 2), (4, 4), (4, 9), (8, 16)])
def test_gpipe_and_1f1b_have_a_bubble_of_one_micro_batch_less_than_stages(schedule, p, m):
    """(p - 1) (t_f + t_b): Narayanan et al. 2021, arXiv:2104.04473, section 2.2.1."""
    assert makespan(schedule, p, m) == (m + p - 1) * (FORWARD + BACKWARD)


@pytest.mark.parametrize(("p", "m", "v"), [(2, 2, 2), (4, 4, 2), (4, 8, 3), (8, 16, 2)])
def test_interleaving_divides_the_bubble_by_the_number_of_chunks(p, m, v):
    """(p - 1) (t_f + t_b) / v: section 2.2.2."""
    whole = (m + (p - 1) / v) * (FORWARD + BACKWARD)
    assert makespan("1f1b", p, m, v) == pytest.approx(whole)


@pytest.mark.parametrize(("p", "m"), [(4, 8), (8, 8)])
def test_1f1b_keeps_as_many_micro_batches_as_there_are_stages_left(p, m):
    for stage in range(p):
        turns = turns_of_stage("1f1b", stage, p, m, 1)
        held = np.cumsum([1 if t.forward else -1 for t in turns])
        assert held.max() == p - stage


@pytest.mark.parametrize("chunks", [1, 2])
def test_every_micro_batch_goes_forward_and_backward_once_through_each_chunk(chunks):
    turns = turns_of_stage("1f1b", 1, 4, 8, chunks)
    assert len(turns) == len(set(turns)) == 2 * 8 * chunks
