"""Context parallelism: what each rank computes and exchanges, against the papers."""

from dataclasses import replace

import numpy as np
import pytest
from foretrace.models.training.description.description import AttentionOptions, Transformer
from foretrace.models.training.layer.attention import attention
from foretrace.models.training.layer.context import attention_blocks
from foretrace.models.training.layer.model_size import model_flop
from foretrace.models.training.layer.operations import CONTEXT, RING, Split
from foretrace.models.training.plan.parallel_plan import ParallelPlan
from foretrace.models.training.program.hardware_flop import hardware_flop
from foretrace.models.training.program.step_graph import step_graph
from foretrace.sim.facts.backend import Backend, Timing
from foretrace.sim.facts.system import Component, System
from foretrace.sim.run.simulation import Simulation

S, H, KEYS = 1024, 64, 16  # tokens, width of all heads, width of all keys
GROUPED = AttentionOptions(key_heads=2)
MODEL = Transformer(hidden=H, layers=1, heads=8, vocabulary=128, inner=256, attention=GROUPED)
SPLIT = Split(batch=1, sequence=S, context=8)


def scores(split, causal=True):
    found = [b for b in attention_blocks(causal, split) if b]
    return sum(b.queries * b.keys * (0.5 if b.causal else 1.0) for b in found)


@pytest.mark.parametrize("n", [2, 4, 8])
def test_a_beginning_and_an_end_each_make_causal_work_equal(n):
    """Half of all scores over n: zigzag, as Llama 3's 2 n parts (arXiv:2407.21783, 3.3.2)."""
    assert scores(replace(SPLIT, context=n)) == S * S / 2 / n


def test_unbalanced_the_last_rank_has_almost_twice_the_mean():
    """(2 n - 1) / n of it: Striped Attention (Brandon et al. 2023, arXiv:2311.09431, 3.1)."""
    each = [scores(replace(SPLIT, balanced=False, place=r)) for r in range(8)]
    assert sum(each) == S * S / 2
    assert max(each) / np.mean(each) == pytest.approx((2 * 8 - 1) / 8)


def test_documents_of_a_sequence_see_only_their_own():
    packed = replace(SPLIT, document=S // 4)
    assert 4 * scores(packed) == scores(SPLIT) / 4
    plain, short = (model_flop(MODEL, S, document) for document in (0, S // 4))
    assert plain - short == 3 * 4 * S * (S - S // 4) * H / 2  # the mask's half


def sent(split, group, forward=True):
    """Bytes that a rank sends of a group in attention, rings taken as they run."""
    works = [w for o in attention(MODEL, split) for w in (o.forward if forward else o.backward)]
    of = [w for w in works if w.group == group and not w.signature.startswith("recv:")]
    n, whole = split.context, sum(w.bytes for w in of)
    return whole if group == RING else whole * (n - 1) / n


@pytest.mark.parametrize("n", [2, 4, 8])
def test_keys_and_values_go_round_the_ring_once_and_their_gradients_home(n):
    """n - 1 hops of keys and values, forward and backward, n of their gradients: Liu et al. 2023,
    arXiv:2310.01889, section 3 and appendix A."""
    split = replace(SPLIT, context=n)
    own = 2 * 2 * KEYS * S // n  # B of a rank's keys and values
    assert sent(split, RING) == (n - 1) * own
    assert sent(split, RING, forward=False) == (n - 1) * own + n * own


@pytest.mark.parametrize("n", [2, 4])
def test_gathering_sends_as_much_as_a_ring_and_sums_gradients_home(n):
    """All-gather and reduce-scatter of the same bytes (Patarasuk and Yuan 2009)."""
    split = replace(SPLIT, context=n, context_by="all-gather")
    own = 2 * 2 * KEYS * S // n
    assert sent(split, CONTEXT) == (n - 1) * own
    assert sent(split, CONTEXT, forward=False) == 2 * (n - 1) * own


@pytest.mark.parametrize("n", [2, 4, 8])
def test_ulysses_exchanges_four_activations_over_as_many_ranks(n):
    """4 N h / P, each rank keeping its own part: Jacobs et al. 2023, arXiv:2309.14509, 3.2."""
    split = replace(SPLIT, context=n, context_by="ulysses")
    many = replace(MODEL, attention=AttentionOptions())
    works = [w for o in attention(many, split) for w in o.forward if w.group == CONTEXT]
    assert sum(w.bytes for w in works) == 2 * 4 * S * H / n


@pytest.mark.parametrize("by", ["ring", "all-gather", "ulysses"])
@pytest.mark.parametrize("balanced", [True, False])
def test_ranks_that_share_sequences_compute_as_much_as_one(by, balanced):
    alone = ParallelPlan(batch=4, sequence=S)
    shared = replace(alone, context=2, context_by=by, balanced=balanced)
    assert hardware_flop(MODEL, shared) == pytest.approx(hardware_flop(MODEL, alone), rel=1e-12)


class BlocksAndHops(Backend):
    """A second for each 16,384 scores; messages take what a test says."""

    source, uniform = "test", True

    def __init__(self, hop):
        self.hop = hop

    def timing(self, ops, now=0.0):
        return Timing.of(np.array([*map(self._seconds, ops.signatures), 0.0])[ops.signature])

    def _seconds(self, text):
        if text.startswith("send:"):
            return self.hop
        if "flash_attention" not in text:
            return 0.0
        queries, keys = (int(part.split("x")[2]) for part in text.split()[2:4])
        return queries * keys * (0.5 if "causal=1" in text else 1.0) / 16384


def forward_seconds(plan, hop):
    gpus = tuple(Component(f"node0.gpu{k}", "gpu", slots=128) for k in range(plan.ranks))
    system = System(
        (*gpus, Component("fabric", "fabric")), tuple(g.name for g in gpus), fabric="fabric"
    )
    graph = step_graph(MODEL, plan)
    return Simulation(system, {"*": BlocksAndHops(hop)}).run(graph).makespan


def test_messages_hide_behind_blocks_that_take_as_long():
    """Liu et al. 2023, section 3: hidden where a block takes no less than its message."""
    plan = ParallelPlan(batch=1, sequence=S, context=4)
    # forward: four blocks of two seconds; backward: messages only, three each beside nothing and
    # the one that brings the gradients home
    assert forward_seconds(plan, 0.0) == 8
    assert forward_seconds(plan, 2.0) == 8 + 5 * 2.0
    assert forward_seconds(plan, 3.0) == 2 + 3 * 3 + 5 * 3.0


def test_a_ring_that_is_not_balanced_goes_at_the_pace_of_its_last_rank():
    plan = ParallelPlan(batch=1, sequence=S, context=4, balanced=False)
    assert forward_seconds(plan, 0.0) == 2 + 3 * 4
