"""Pipeline schedules and the textbook: bubbles of a step whose passes all take the same time."""

import time

import numpy as np
import pytest
from foretrace.models.training.plan.schedules import PassKind, StageTurns, turns_of_stage

FORWARD, BACKWARD = 1.0, 2.0  # s of one micro-batch through one stage
INPUT = WEIGHT = BACKWARD / 2
SECONDS = dict(zip(PassKind, (FORWARD, BACKWARD, INPUT, WEIGHT), strict=True))


def makespan(schedule, stages, micro_batches, chunks=1):
    """Seconds of a step."""
    return max(end for _, end in stage_spans(schedule, stages, micro_batches, chunks))


def stage_spans(schedule, stages, micro_batches, chunks=1, took=SECONDS):
    """Seconds at which each stage begins and ends its step.

    Each turn waits for the stage before it, and for its stage's last turn.
    """
    turns = [turns_of_stage(schedule, s, stages, micro_batches, chunks) for s in range(stages)]
    both_ends = schedule == "dualpipe"
    chunks = 2 if schedule == "zb-v" else chunks
    last = stages * (1 if both_ends else chunks) - 1
    ended, free, at, begun = {}, [0.0] * stages, [0] * stages, {}

    def ends(s, turn):
        """What a turn waits for, None for nothing, and what it is."""
        folded = both_ends or schedule == "zb-v"
        part = (s, last - s)[turn.chunk] if folded else turn.chunk * stages + s
        way = (turn.forward, turn.micro_batch, turn.chunk if both_ends else 0)
        first = part == (0 if turn.forward else last) or turn.what is PassKind.WEIGHT
        return None if first else (*way, part - 1 if turn.forward else part + 1), (*way, part)

    while any(at[s] < len(turns[s]) for s in range(stages)):
        moved = False
        for s in range(stages):
            group = list(turns[s][at[s] : at[s] + 1])
            group += [t for t in turns[s][at[s] + 1 : at[s] + 2] if t.beside]
            waits = [ends(s, turn)[0] for turn in group]
            if not group or any(w and w not in ended for w in waits):
                continue
            begin = max([free[s], *(ended[w] for w in waits if w)])
            free[s] = begin + sum(took[turn.what] for turn in group) / chunks
            begun.setdefault(s, begin)
            for turn in group:
                if turn.what is not PassKind.WEIGHT:
                    ended[ends(s, turn)[1]] = free[s]
            at[s], moved = at[s] + len(group), True
        assert moved, "stages wait for each other"
    return [(begun[s], free[s]) for s in range(stages)]


@pytest.mark.parametrize("schedule", ["gpipe", "1f1b", "combined-1f1b"])
@pytest.mark.parametrize(("p", "m"), [(1, 3), (2, 2), (4, 4), (4, 9), (8, 16)])
def test_gpipe_and_1f1b_have_a_bubble_of_one_micro_batch_less_than_stages(schedule, p, m):
    """(p - 1) (t_f + t_b): Narayanan et al. 2021, arXiv:2104.04473, section 2.2.1."""
    assert makespan(schedule, p, m) == (m + p - 1) * (FORWARD + BACKWARD)


@pytest.mark.parametrize(("p", "m", "v"), [(2, 2, 2), (4, 4, 2), (4, 8, 3), (8, 16, 2)])
def test_interleaving_divides_the_bubble_by_the_number_of_chunks(p, m, v):
    """(p - 1) (t_f + t_b) / v: section 2.2.2."""
    whole = (m + (p - 1) / v) * (FORWARD + BACKWARD)
    assert makespan("1f1b", p, m, v) == pytest.approx(whole)


@pytest.mark.parametrize(("p", "m"), [(1, 3), (2, 2), (4, 4), (4, 9), (8, 16)])
def test_gradients_of_weights_that_wait_fill_all_but_a_third_of_the_bubble(p, m):
    """ZB-H1's (p - 1) (t_f + t_b - t_w): Qi et al. 2023, arXiv:2401.10241, section 2.3."""
    whole = m * (FORWARD + INPUT + WEIGHT)
    assert makespan("zb-h1", p, m) == whole + (p - 1) * (FORWARD + INPUT - WEIGHT)


@pytest.mark.parametrize(("p", "m"), [(2, 4), (4, 8), (4, 10), (8, 16), (8, 20), (16, 40)])
def test_dualpipe_has_the_bubble_of_its_paper(p, m):
    """(p / 2 - 1) (F&B + B - 3 W): DeepSeek-AI 2024, arXiv:2412.19437, table 2."""
    bubble = (p / 2 - 1) * ((FORWARD + BACKWARD) + BACKWARD - 3 * WEIGHT)
    assert makespan("dualpipe", p, m) == m * (FORWARD + BACKWARD) + bubble


@pytest.mark.parametrize(("p", "m"), [(4, 8), (8, 20)])
def test_dualpipe_keeps_one_micro_batch_more_than_there_are_stages(p, m):
    """PP + 1: table 2."""
    for stage in range(p):
        turns = turns_of_stage("dualpipe", stage, p, m, 1)
        held = np.cumsum([t.forward - t.makes_input_gradients for t in turns])
        assert held.max() == p + 1


@pytest.mark.parametrize(("p", "m"), [(4, 8), (8, 8)])
def test_waiting_gradients_of_weights_are_as_many_as_stages_before(p, m):
    """So that no stage keeps more than p micro-batches: Qi et al. 2023, section 2.2."""
    for stage in range(p):
        turns = turns_of_stage("zb-h1", stage, p, m, 1)
        held = np.cumsum([t.forward - t.makes_weight_gradients for t in turns])
        assert held.max() <= p


@pytest.mark.parametrize("schedule", ["zb-h2", "zb-v"])
@pytest.mark.parametrize(("p", "m"), [(1, 3), (2, 3), (2, 8), (4, 7), (4, 12), (8, 20)])
def test_no_stage_waits_once_it_has_begun_where_all_passes_take_as_long(schedule, p, m):
    """No bubble: Qi et al. 2023, arXiv:2401.10241, sections 2.2 and 6."""
    spans = stage_spans(schedule, p, m)
    assert [end - begin for begin, end in spans] == [m * (FORWARD + INPUT + WEIGHT)] * p
    each = FORWARD / (2 if schedule == "zb-v" else 1)
    assert [begin for begin, _ in spans] == [s * each for s in range(p)]


@pytest.mark.parametrize(("p", "m"), [(2, 8), (4, 12), (8, 20)])
def test_zb_h2s_bubble_is_that_of_its_paper_where_weights_take_less(p, m):
    """(p - 1) (F + B - 2 W): Qi et al. 2023, section 2.3."""
    took = dict(zip(PassKind, (2.0, 3.0, 2.0, 1.0), strict=True))
    idle = [end - begin - m * (2 + 2 + 1) for begin, end in stage_spans("zb-h2", p, m, 1, took)]
    assert max(idle) == (p - 1) * (2 + 2 - 2 * 1)


def letters(schedule, stage, stages, micro_batches):
    turns = turns_of_stage(schedule, stage, stages, micro_batches, 1)
    case = {0: str.upper, 1: str.lower}
    return " ".join(case[t.chunk](t.what.name[0]) + str(t.micro_batch + 1) for t in turns)


def test_zb_h2_begins_as_the_picture_of_its_paper():
    """Qi et al. 2023, figure 3, at the bottom: the first device, 2 p - 1 forward ahead."""
    assert letters("zb-h2", 0, 4, 8).startswith("F1 F2 F3 F4 F5 F6 F7 I1 W1 F8 I2 W2 I3 W3")


def test_zb_v_is_the_picture_of_its_paper():
    """Section 6, with the second chunk in small letters: the first and last device.

    So PyTorch 2.11's ``ScheduleZBVZeroBubble`` orders them, too.
    """
    first = "F1 F2 F3 F4 F5 F6 F7 f1 i1 w1 f2 i2 w2 f3 i3 w3 f4 i4 w4 F8 I1 W1 f5 i5 w5"
    assert letters("zb-v", 0, 4, 8).startswith(first)
    assert letters("zb-v", 3, 4, 8).startswith("F1 f1 F2 f2 F3 f3 F4 f4 i1 w1 F5 I1 W1 f5 i2 w2")


@pytest.mark.parametrize(("p", "m"), [(2, 8), (4, 12), (8, 20)])
def test_zb_h2_keeps_twice_the_stages_less_one(p, m):
    """(2 p - 1) M_B: section 2.2."""
    for stage in range(p):
        turns = turns_of_stage("zb-h2", stage, p, m, 1)
        held = np.cumsum([t.forward - t.makes_weight_gradients for t in turns])
        assert held.max() == 2 * p - 1


@pytest.mark.parametrize(("p", "m"), [(2, 8), (4, 12), (8, 20)])
def test_zb_v_keeps_as_many_halves_as_1f1bs_first_stage_keeps_wholes(p, m):
    """p M_B on every stage, each of 2 p chunks half as large: section 6."""
    for stage in range(p):
        turns = turns_of_stage("zb-v", stage, p, m, 1)
        held = np.cumsum([t.forward - t.makes_weight_gradients for t in turns])
        assert held.max() == 2 * p


@pytest.mark.parametrize("m", [1, 2, 4, 6])
def test_fewer_micro_batches_than_fill_a_v_run_all_the_same(m):
    for p in (2, 4):
        whole = m * (FORWARD + INPUT + WEIGHT)
        assert whole <= makespan("zb-v", p, m) <= makespan("gpipe", p, m)


@pytest.mark.parametrize(
    ("schedule", "chunks"), [("zb-h1", 1), ("zb-h2", 1), ("zb-v", 2), ("dualpipe", 2)]
)
def test_every_pass_runs_once(schedule, chunks):
    each = 4 if schedule == "dualpipe" else 8
    turns = [t._replace(beside=False) for t in turns_of_stage(schedule, 1, 4, 8, 1)]
    assert len(turns) == len(set(turns))
    for kind in ("forward", "makes_input_gradients", "makes_weight_gradients"):
        found = sorted((t.chunk, t.micro_batch) for t in turns if getattr(t, kind))
        assert found == [(c, m) for c in range(chunks) for m in range(each)]


@pytest.mark.parametrize(("p", "m"), [(4, 8), (8, 8)])
def test_1f1b_keeps_as_many_micro_batches_as_there_are_stages_left(p, m):
    for stage in range(p):
        turns = turns_of_stage("1f1b", stage, p, m, 1)
        held = np.cumsum([1 if t.forward else -1 for t in turns])
        assert held.max() == p - stage


@pytest.mark.parametrize(("p", "m"), [(1, 4), (4, 8), (8, 16)])
def test_combined_1f1b_keeps_one_micro_batch_more_than_an_interleaved_pipeline(p, m):
    for stage in range(p):
        turns = turns_of_stage("combined-1f1b", stage, p, m, 1)
        held = np.cumsum([1 if t.forward else -1 for t in turns])
        assert held.max() == min(2 * (p - stage - 1) + 1 + 1, m)
        assert sum(t.beside for t in turns) == max(m - 2 * (p - stage - 1) - 1, 0)
        assert not any(t.beside for t in turns_of_stage("1f1b", stage, p, m, 1))


@pytest.mark.parametrize("chunks", [1, 2])
def test_every_micro_batch_goes_forward_and_backward_once_through_each_chunk(chunks):
    turns = turns_of_stage("1f1b", 1, 4, 8, chunks)
    assert len(turns) == len(set(turns)) == 2 * 8 * chunks


@pytest.mark.parametrize(("schedule", "chunks"), [("1f1b", 1), ("1f1b", 2), ("dualpipe", 1)])
def test_turns_as_columns_and_one_by_one_are_the_same(schedule, chunks):
    turns = turns_of_stage(schedule, 1, 4, 8, chunks)
    each = list(turns)
    assert [turns[i] for i in range(len(turns))] == each == list(StageTurns.of(each))
    assert turns.forward.tolist() == [t.forward for t in each]
    assert turns.makes_input_gradients.tolist() == [t.makes_input_gradients for t in each]
    assert turns.makes_weight_gradients.tolist() == [t.makes_weight_gradients for t in each]


def test_a_large_schedule_takes_no_time_a_turn():
    """A search holds every plan against memory: a million turns were seconds of Python."""
    began = time.process_time()
    assert len(turns_of_stage("1f1b", 3, 64, 2**17, 4)) == 2**20
    assert time.process_time() - began < 0.5
