"""SPMD graphs with shared rates run without expansion, with equal ticks."""

import logging
from dataclasses import replace

import numpy as np
import pytest
from foretrace.sim.core.programs.program_threads import ProgramThreads
from foretrace.sim.errors import SimulationError
from foretrace.sim.facts.backend import Backend, Spread, Timing, Usage
from foretrace.sim.facts.csr import Csr
from foretrace.sim.facts.graph import Graph
from foretrace.sim.facts.ops import Kind, Ops
from foretrace.sim.facts.spmd.spmd_graph import RankProgram, SpmdGraph
from foretrace.sim.facts.system import Component, System
from foretrace.sim.run.simulation import Simulation
from hypothesis import given
from hypothesis import strategies as st

from ..engine.test_media import MEDIUM
from .test_templates import SEEDS, TICK, outcome, ran_as_template, random_template, same_numbers

TB = 1e12  # B/s: one byte a tick


class Shares(Backend):
    """Backend with a fixed time, then transfers over links chosen by the members' numbers.

    Parameters
    ----------
    links : component indices, chosen by a member's number modulo their count
    every : one op in this many shares no rate
    """

    uniform = True
    source = "shares"

    def __init__(self, links, spread=None, weight=1.0, limit=np.inf, every=5):
        self.links, self.spread, self.weight = links, spread, weight
        self.limit, self.every = limit, every

    def timing(self, ops, now=0.0):
        uses, work = [], np.zeros(len(ops))
        for i in range(len(ops)):
            members = ops.at.members[i].tolist() or [int(ops.at.component[i])]
            n = len(self.links)
            own = {self.links[m % n] for m in members} | {self.links[sum(members) % n]}
            size = int(ops.bytes[i])
            shares = size % self.every > 0
            work[i] = size * shares
            uses.append({c: self.weight * (1 + c % 2) for c in own} if shares else {})
        limit = np.where(work % 3 == 1, self.limit, np.inf)
        fixed = np.nan_to_num(ops.duration)
        return Timing.of(fixed, work, Usage.of(uses), limit, spread=self.spread)


def with_bytes(template: SpmdGraph, rng, scale: int) -> SpmdGraph:
    """Copy of an SPMD graph with bytes in its ops; few distinct values, so that everything ties."""
    programs = tuple(
        replace(p, ops=p.ops.replace(
            bytes=rng.choice([0, 1, 2, 3, 4, 6, 12, 12], len(p)) * float(scale),
            duration=p.ops.duration * scale))
        for p in template.programs
    )  # fmt: skip
    return replace(template, programs=programs)


def shared_machine(ranks: int, rng, spread=None, slots=None, own=True) -> Simulation:
    """Simulation with one GPU per rank, and a few links that all ranks use."""
    rates = rng.choice([1, 1, 2, 3, 7], int(rng.integers(1, 6)))
    parts, components = {}, []
    for r in range(ranks):
        parts[f"gpu{r}"] = {"host": f"host{r // 2}", "dma": f"dma{r}"}
        components += [Component(f"gpu{r}", "gpu", slots=slots), Component(f"dma{r}", "dma")]
    components += [Component(f"host{k}", "host") for k in range((ranks + 1) // 2)]
    first = len(components) + 1
    components += [Component("net", "fabric")]
    components += [Component(f"link{k}", "link", rate=TB * r) for k, r in enumerate(rates.tolist())]
    system = System(
        tuple(components), tuple(f"gpu{r}" for r in range(ranks)), parts, fabric="net"
    )  # fmt: skip
    links = [first + k for k in range(len(rates))]
    weight, limit = float(rng.choice([1, 1, 0.5, 3])), float(rng.choice([np.inf, 0.5 * TB, 2 * TB]))
    every = int(rng.choice([2, 5, 100]))
    shares = Shares(links, spread, weight, limit, every)
    alone = Shares(links, spread, weight, limit, 1)
    kinds = {"gpu*": shares if own else alone, "dma*": shares, "host*": alone, "net": shares}
    return Simulation(system, kinds, seed=3)


@given(SEEDS, st.sampled_from(["ranks", "none"]), st.booleans())
def test_a_template_that_shares_rates_equals_its_expansion_in_both_engines(seed, keep, own):
    rng = np.random.default_rng(seed)
    template = with_bytes(random_template(seed), rng, int(rng.choice([1, 1000])))
    simulation = shared_machine(template.ranks, rng, own=own)
    graph = Graph("t", (template,))
    written = outcome(simulation, graph, keep="ops")
    found = outcome(simulation, graph, keep=keep)
    if isinstance(written, tuple):
        assert found == written
        return
    same_numbers(written, found)
    same_numbers(outcome(replace(simulation, engine="reference"), graph, keep=keep), found)


@given(SEEDS, st.integers(0, 9), st.sampled_from([0, 1, 4]), st.sampled_from([0, 1, 4]))
def test_replicas_of_a_template_that_shares_rates_equal_those_of_its_expansion(
    seed, replica, of_step, of_op
):
    start = np.array([0.8, 1.2])[: seed % 3]
    spread = Spread(np.array([0.5, 0.9, 1, 1.3])[:of_step], np.array([0, 1, 1.1, 2])[:of_op], start)
    rng = np.random.default_rng(seed)
    template = with_bytes(random_template(seed), rng, 1_000_003)
    simulation = shared_machine(template.ranks, rng, spread)
    graph = Graph("t", (template,))
    written = outcome(simulation, graph, keep="ops", replica=replica)
    found = outcome(simulation, graph, keep="ranks", replica=replica)
    if isinstance(written, tuple):
        assert found == written
    else:
        same_numbers(written, found)


def test_most_random_templates_that_share_rates_run_as_templates(caplog):
    with caplog.at_level(logging.INFO, "foretrace.sim.run.single_graph"):
        for seed in range(30):
            rng = np.random.default_rng(seed)
            template = with_bytes(random_template(seed), rng, 1)
            graph = Graph("t", (template,))
            outcome(shared_machine(template.ranks, rng), graph, keep="ranks")
    assert caplog.text.count("as an SPMD graph") > 18


def pair(program: RankProgram, ranks: int = 2) -> Graph:
    """Graph of ranks with one program, each of which sends to the next over one wire."""
    to = np.roll(np.arange(ranks, dtype=np.int32), -1)[None]
    return Graph("t", (SpmdGraph((program,), np.zeros(ranks, np.int32), peers=to),))


def wired(ranks: int, rate: float = TB, media=None) -> Simulation:
    """Simulation of GPUs that share one wire; a GPU's own rate is that of its memory."""
    gpus = tuple(Component(f"gpu{r}", "gpu", rate=TB) for r in range(ranks))
    wire = Component("wire", "link", rate=rate, max_rate=16 * TB)
    system = System(
        (*gpus, Component("net", "fabric"), wire), tuple(g.name for g in gpus), fabric="net"
    )
    shares = Shares([ranks + 1], every=100)
    return Simulation(system, {"gpu*": OfItsOwn(), "net": shares}, media=media or {})


class OfItsOwn(Backend):
    """Backend whose ops transfer bytes at the rate of their own component."""

    uniform = True

    def timing(self, ops, now=0.0):
        return Timing.of(np.zeros(len(ops)), np.nan_to_num(ops.bytes))


def sends_beside_compute() -> RankProgram:
    """Program with a send next to two compute ops; only the receiver waits for the send."""
    ops = Ops.of(kind=[Kind.COMPUTE, Kind.SEND, Kind.COMPUTE, Kind.RECV, Kind.COMPUTE],
                 stream=[0, 1, 0, 2, 0], bytes=[4, 6, 3, 0, 2], duration=0.0)  # fmt: skip
    after = Csr.of([[1, 2], [], [4], [4], []])
    return RankProgram(ops, after, np.array([-1, 0, -1, 0, -1], np.int16))


def test_a_thread_continues_during_a_flow_of_another_thread(caplog):
    """The send lasts from 4 to 28 (two of weight 2 on one byte per tick); compute ends at 7."""
    program = sends_beside_compute()
    threads = ProgramThreads.of(program, program.encoded.question)
    assert len(threads.begin) - 1 == 3
    result, as_template = ran_as_template(caplog, wired(2), pair(program))
    assert as_template
    assert result.kept.end.tolist() == [[30, 30]]
    same_numbers(wired(2).run(pair(program), keep="ops"), result)


def test_equal_ranks_use_their_own_shared_components(caplog):
    """A single query for both GPUs would use the memory of the first GPU twice."""
    work = RankProgram.chain(Ops.of(kind=[Kind.COMPUTE], bytes=[5]))
    graph = Graph("t", (SpmdGraph((work,), np.zeros(3, np.int32)),))
    result, as_template = ran_as_template(caplog, wired(3), graph)
    assert as_template
    assert result.kept.end.tolist() == [[5, 5, 5]]
    assert {name: s for (name, _), s in result.busy_by_kind.items()} == pytest.approx(
        {f"gpu{r}": 5 * TICK for r in range(3)}
    )


def test_detail_of_a_template_that_shared_rates_is_that_of_every_op(caplog):
    with caplog.at_level(logging.INFO, "foretrace.sim.run.result"):
        result = wired(2).run(pair(sends_beside_compute()), keep="ranks", replica=0)
        blame = result.blame()
    assert "running again" in caplog.text
    assert sum(blame.ticks.values()) == result.makespan_ticks
    assert len(result.frame()) == 10


def test_work_at_rate_0_is_named_by_the_written_run():
    with pytest.raises(SimulationError, match="starvation"):
        wired(2, rate=0.0).run(pair(sends_beside_compute()), keep="ranks")


def test_work_in_a_plugged_medium_is_written_out_and_logged(caplog):
    simulation = wired(2, media={"wire": MEDIUM})
    result, as_template = ran_as_template(caplog, simulation, pair(sends_beside_compute()))
    assert not as_template
    assert "its ops share rates of a medium that is plugged in" in caplog.text
    assert result.makespan_ticks > 0


def test_ops_without_period_that_share_rates_are_written_out_and_logged(caplog):
    program = sends_beside_compute()
    beside = replace(program, ops=program.ops.replace(period=np.array([0, 0, 0, 0, -1])))
    result, as_template = ran_as_template(caplog, wired(2), pair(beside))
    assert not as_template
    assert "some of its ops belong to no period" in caplog.text
    assert result.makespan_ticks == 30
