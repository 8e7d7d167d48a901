"""Two jobs that share no component: each does, to the tick, what it does alone."""

import random
from dataclasses import replace

import numpy as np
import pytest
from foretrace.sim.analysis.activity import activity, exposed_communication_seconds
from foretrace.sim.analysis.metrics import utilization_windows
from foretrace.sim.errors import SimulationError
from foretrace.sim.facts.backend import Backend, Holds, Spread, Timing, Usage
from foretrace.sim.facts.graph import Builder, Member
from foretrace.sim.facts.ops import Kind
from foretrace.sim.facts.place import place
from foretrace.sim.facts.system import Component, Location, System
from foretrace.sim.run import held_graphs
from foretrace.sim.run.job import Job
from foretrace.sim.run.simulation import Simulation
from foretrace.sim.run.workload import Need, Needs, Workload

CLAIMS = ("asked", "granted", "returned")
NIGHTLY = pytest.mark.nightly
NODES = 2
GPUS = [f"node{n}.gpu{k}" for n in range(NODES) for k in range(2)]
SYSTEM = System(
    (
        *(
            Component(name, "gpu", slots=1 + (i % 2), location=Location(name[:5]))
            for i, name in enumerate(GPUS)
        ),
        *(
            Component(f"node{n}.host", "host", slots=1, location=Location(f"node{n}"))
            for n in range(NODES)
        ),
        *(
            Component(f"node{n}.link", "link", rate=5.0, location=Location(f"node{n}"))
            for n in range(NODES)
        ),
        Component("fabric", "fabric"),
        *(
            Component(f"node{n}.hbm", "memory", capacity=4, location=Location(f"node{n}"))
            for n in range(NODES)
        ),
    ),
    tuple(GPUS),
    {gpu: {"host": f"{gpu[:5]}.host"} for gpu in GPUS},
    fabric="fabric",
)
LINKS = np.array([SYSTEM.number(f"node{n}.link") for n in range(NODES)])
NODE_OF = np.array([int(c.name[4]) if c.name.startswith("node") else 0 for c in SYSTEM.components])
HBM = np.array([SYSTEM.number(f"node{n}.hbm") for n in range(NODES)])
SPREAD = Spread(np.array([0.5, 1.0, 2.0]), np.array([0.75, 1.0, 1.25]))


class Recorded(Backend):
    source, uniform = "the test", True

    def timing(self, ops, now=0.0):
        return Timing.of(ops.duration, spread=SPREAD)


class Holding(Recorded):
    """Holds of the memory of its node, the first op of a question until the last has ended."""

    def timing(self, ops, now=0.0):
        memory = HBM[NODE_OF[ops.at.component]].tolist()
        rows = [[(m, 1 + int(t) % 3)] for m, t in zip(memory, ops.duration, strict=True)]
        if len(rows) > 2:
            rows[0].append((memory[0], 1, len(rows) - 1))
        return replace(super().timing(ops, now), holds=Holds.of(rows))


class Asked(Recorded):
    """As long as is recorded, and a second more when it starts late."""

    online = True

    def timing(self, ops, now=0.0):
        return Timing.of(ops.duration + (now >= 4))


class Wire(Backend):
    """Bytes over the link of the members' node."""

    source = "the test"

    def timing(self, ops, now=0.0):
        first = ops.at.members.values[ops.at.members.indptr[:-1]]
        links = LINKS[NODE_OF[first]]
        usage = Usage.of([{int(link): 1.0} for link in links])
        return Timing.of(ops.duration, work=ops.bytes, usage=usage, spread=SPREAD)


class Program(Workload):
    """A random program: graphs, and processes that hand them in, stop, fail, watch and emit."""

    def __init__(self, seed, node):
        self.seed, self.node, self.periodic = seed, node, random.Random(seed).random() < 0.5

    @property
    def needs(self):
        return Needs({"gpu": Need("gpu", 2)})

    def start(self, job):
        own = random.Random(self.seed)
        graphs = [self.graph(own) for _ in range(own.randint(1, 4))]
        if own.random() < 0.2:
            return graphs[0]
        actors = [
            [self.step(own) for _ in range(own.randint(2, 8))] for _ in range(own.randint(1, 3))
        ]

        def main(sim):
            handles = [sim.submit(graphs[0])]
            sim.start([_actor(self, steps, graphs, handles) for steps in actors])
            yield sim.settled()

        return main

    def graph(self, own):
        build = Builder(own.choice(["step", "save"]))
        rows = []
        for _ in range(own.randint(1, 6)):
            after = [r for r in rows if own.random() < 0.4]
            kind = own.choice([Kind.COMPUTE, Kind.COMPUTE, Kind.HOST, Kind.COLLECTIVE, Kind.DELAY])
            common = {
                "duration": float(own.randint(0, 3)),
                "period": own.choice([-1, 0, 0, 1, 2]),
            }
            if kind == Kind.COLLECTIVE:
                members = [Member(r, 1, tuple(a for a in after if a % 2 == r)) for r in range(2)]
                row = build.collective(members, bytes=float(own.randint(0, 20)), **common)
            else:
                release = float(own.choice([0, 0, 0, 2]))
                row = build.op(kind, rank=own.randint(0, 1), release=release, after=after, **common)
            rows.append(row)
        return build.graph()

    def step(self, own):
        verbs = ["wait", "submit", "submit", "done", "ended", "settled", "emit", "rate", "fail"]
        verbs += ["stop", "cancel", "reaches", "look", "child"]
        return own.choice(verbs), own.randint(0, 5), own.randint(0, 5), own.random()


def _actor(program, steps, graphs, handles):
    """Plays steps; what it fails it restores, what was lost or stopped it resumes."""
    node = f"node{program.node}"
    link, gpus = f"{node}.link", [g for g in GPUS if g.startswith(node)]

    def act(sim):
        for verb, a, b, x in steps:
            handle = handles[a % len(handles)]
            op = handle.first + b % max(handle.count, 1)
            if verb == "wait":
                yield sim.wait(a)
            elif verb == "submit":
                graph = graphs[a % len(graphs)]
                if x < 0.3:
                    graph = place(graph, sim.system, gpus[::-1])
                options = {"key": b} if x > 0.8 else {"rank": b} if x > 0.6 else {}
                handles.append(sim.submit(graph, **options))
            elif verb == "done":
                yield handle.done | sim.wait(5)
            elif verb == "ended" and handle.count:
                yield sim.ended(op) | sim.wait(5)
            elif verb == "settled":
                yield sim.settled()
            elif verb == "emit":
                sim.emit("drawn", sim.job.random("x").random() + len(sim.queue(gpus[0])))
            elif verb == "rate":
                sim.set_rate(link, float(1 + a))
            elif verb == "fail":
                name = (*gpus, link, node)[a % 4]
                lost = sim.job.lost
                sim.fail(name)
                yield sim.wait(b)
                sim.restore(name)
                if lost.triggered:
                    for one in lost.value:
                        if sim.state(one.op).name == "STOPPED":
                            sim.resume(one.op, keep=x < 0.5)
                            yield sim.settled()
            elif verb == "stop" and handle.count:
                sim.stop(op)
                yield sim.wait(b)
                if sim.state(op).name == "STOPPED":
                    sim.resume(op)
            elif verb == "cancel" and x < 0.3:
                sim.cancel(handle if x < 0.1 or not handle.count else op)
            elif verb == "reaches":
                yield sim.reaches("queue", gpus[b % 2], at_least=1) | sim.wait(2)
                sim.emit("waited", sim.now)
            elif verb == "look":
                sim.emit("open", sim.open())
                sim.emit("taken", sim.utilisation(link) + sim.utilisation(gpus[0]))
            elif verb == "child":
                sim.start([_watch])

    return act


def _watch(sim):
    """Watches its job as long as that has work, and not for ever: it may have stopped."""
    for _ in range(12):
        yield sim.wait(1)
        if not sim.open():
            break
        sim.emit("watched", sim.now)


def jobs_of(seed):
    own = random.Random(seed)
    arrives = [float(own.choice([0, 0, 1, 3])) for _ in range(2)]
    return [
        Job(name, Program(2 * seed + k, k), {"gpu": GPUS[2 * k : 2 * k + 2]}, arrives[k])
        for k, name in enumerate("ab")
    ]


def all_values(result):
    """Everything that can be asked of a result."""
    c = result.columns
    blame = result.blame()
    return {
        **{
            n: getattr(c, n).tolist()
            for n in ("ready", "start", "end", "state", "attempts", "arrived", *CLAIMS)
        },
        "rank": result.ops.rank.tolist(),
        "moved": sorted(result.moved),
        "emitted": result.metrics,
        "window": (result.first_release, result.makespan_ticks),
        "busy": result.busy_by_kind,
        "utilization": result.utilization(),
        "windows": {n: v.tolist() for n, v in utilization_windows(result).items()},
        "activity": {n: v.tolist() for n, v in activity(result).items()},
        "exposed": exposed_communication_seconds(result).tolist(),
        "periods": result.periods.tolist(),
        "ranks": result.rank_frame().fillna(-1.0).to_dict("list"),
        "blame": (blame.path, blame.ticks, dict(blame.slowed_by)),
        "sources": result.sources,
    }


def run(seed, engine, jobs, keep="ops"):
    backends = {
        "node*": Holding() if seed % 4 == 1 else Recorded(),
        "fabric": Wire(),
        "node*.link": Recorded(),
    }
    if seed % 3 == 0:
        backends["node*.host"] = Asked()
    simulation = Simulation(SYSTEM, backends, engine=engine, tick=1e-3, seed=seed)
    return simulation.run(jobs, replica=0 if seed % 2 else None, keep=keep)


@pytest.mark.parametrize("seeds", [range(70, 160), pytest.param(range(2_640), marks=NIGHTLY)])
@pytest.mark.parametrize("engine", ["core", "reference"])
def test_two_jobs_that_share_nothing_run_as_if_alone(seeds, engine):
    compared = ops = 0
    for seed in seeds[:: 1 if engine == "core" else 3]:
        jobs = jobs_of(seed)
        try:
            alone = [run(seed, engine, [job]) for job in jobs]
        except SimulationError:  # a deadlock of its own, say
            continue
        both = run(seed, engine, jobs)
        for job, one in zip(jobs, alone, strict=True):
            assert all_values(both.of(job.name)) == all_values(one), seed
        sums = [both.of(name).kept.busy for name in both.jobs]
        assert np.array_equal(sum(sums), both.kept.busy), seed
        assert sum(both.blame().ticks.values()) == both.makespan_ticks
        compared, ops = compared + 1, ops + both.count
    tried = len(seeds[:: 1 if engine == "core" else 3])
    print(f"{engine}: {compared} of {tried} programs of two jobs, {ops} ops")
    assert compared > 0.84 * tried, (compared, tried)
    assert ops > 8 * compared


def aggregate_values(result):
    """What is told without a row for each op."""
    return {
        "window": (result.first_release, result.makespan_ticks, result.count, result.ranks),
        "busy": {k: round(t, 9) for k, t in result.busy_by_kind.items()},
        "exposed": exposed_communication_seconds(result).tolist(),
        "activity": {n: v.tolist() for n, v in activity(result).items()},
        "periods": result.periods.tolist(),
        "ranks": result.rank_frame().fillna(-1.0).to_dict("list"),
        "sources": {text: t for text, t in result.sources.items() if t},
        "emitted": result.metrics,
    }


@pytest.mark.parametrize("seeds", [range(40), pytest.param(range(40, 1_000), marks=NIGHTLY)])
def test_aggregates_of_freed_ops_equal_those_of_all_rows_for_each_job(seeds, monkeypatch):
    """Ops that ended are folded every few submissions: the sums are those over all of them."""
    monkeypatch.setattr(held_graphs, "AT_ONCE", 40)
    compared = folded = 0
    for seed in seeds:
        engine = "core" if seed % 2 else "reference"
        try:
            rows = run(seed, engine, jobs_of(seed))
        except SimulationError:
            continue
        rows = rows.without_rows("ranks", "the rows are gone")
        sums = run(seed, engine, jobs_of(seed), keep="ranks")
        for name in rows.jobs:
            assert aggregate_values(sums.of(name)) == aggregate_values(rows.of(name)), (seed, name)
        assert aggregate_values(sums) == aggregate_values(rows), seed
        compared, folded = compared + 1, folded + (sums.kept.windows is None)
    assert compared > 0.7 * len(seeds)
    assert folded > 0.5 * compared


@pytest.mark.parametrize("engine", ["core", "reference"])
def test_a_job_without_ended_ops_does_not_extend_the_window(engine, monkeypatch):
    """It arrives at 3 s and all of its work is cancelled; the other one's is over at once."""
    monkeypatch.setattr(held_graphs, "AT_ONCE", 40)
    rows = run(630, engine, jobs_of(630)).without_rows("ranks", "the rows are gone")
    sums = run(630, engine, jobs_of(630), keep="ranks")
    assert aggregate_values(sums) == aggregate_values(rows)
    assert sums.makespan == 0.0


@pytest.mark.parametrize("engine", ["core", "reference"])
def test_an_amount_released_after_the_last_end_counts_in_no_other_component(engine):
    both = run(2609, engine, jobs_of(2609))
    assert all_values(both.of("b")) == all_values(run(2609, engine, jobs_of(2609)[1:]))
