"""Templates: what runs without being written out equals what is; folding changes nothing."""

import numpy as np
import pytest
from foretrace.sim.core.templates import Chances, compile_programs, run
from foretrace.sim.csr import Csr
from foretrace.sim.draws import bits, factor, scaled
from foretrace.sim.errors import GraphError, SimulationError
from foretrace.sim.fold import fold
from foretrace.sim.machine import Flows, Lowered, Parts
from foretrace.sim.ops import Kind, Ops
from foretrace.sim.reference import ReferenceMachine
from foretrace.sim.template import Program, Template

FEW = [0, 0, 1, 2, 3, 3, 7]  # ticks: so few values that everything ties


def random_program(rng, streams: int, families: list[int], calls: list[int], peers: str) -> tuple:
    """Ops in an order that fits their dependencies; as many collectives as its groups need."""
    kinds, family = [], []
    todo = [(Kind.COLLECTIVE, f) for f, n in zip(families, calls, strict=True) for _ in range(n)]
    todo += [(Kind.SEND if letter == "s" else Kind.RECV, 0) for letter in peers]
    local = [(Kind.COMPUTE, -1)] * int(rng.integers(1, 6))
    order = todo[:]
    for item in local:
        order.insert(int(rng.integers(0, len(order) + 1)), item)
    for kind, f in order:
        kinds.append(kind)
        family.append(f)
    n = len(kinds)
    pairs = {(i, i + 1) for i in range(n - 1) if rng.random() < 0.8}
    pairs |= {tuple(sorted((int(a), int(b)))) for a, b in rng.integers(0, n, (n // 2, 2)) if a != b}
    pairs = sorted(pairs)
    successors = Csr.from_pairs([a for a, _ in pairs], [b for _, b in pairs], n)
    ops = Ops.of(kind=np.array(kinds), stream=rng.integers(0, streams, n),
                 iteration=np.sort(rng.integers(0, 2, n)))  # fmt: skip
    ticks = rng.choice(FEW, n).astype(np.int64)
    ticks[np.isin(ops.kind, (Kind.RECV,))] = 0
    return Program(ops, successors, np.array(family, np.int16)), ticks


def random_template(seed: int) -> tuple[Template, list[np.ndarray]]:
    """A grid of ranks: pairs along one axis, everybody of a column along the other."""
    rng = np.random.default_rng(seed)
    width, height = int(rng.integers(1, 5)), int(rng.integers(1, 4))
    ranks = width * height
    r = np.arange(ranks)
    groups = np.array([r // width, r % width], np.int32)
    calls = rng.integers(0, 4, 2).tolist()
    chain = bool(rng.integers(0, 2))
    peers = np.array([np.where(r % width < width - 1, r + 1, -1)], np.int32)
    kinds = int(rng.integers(1, 3)) if not chain else width
    # The order of a rank's collectives is that of all others: families never cross.
    made = []
    for k in range(kinds):
        letters = ""
        if chain:
            letters = ("" if k == 0 else "r") + ("" if k == width - 1 else "s")
        made.append(random_program(rng, 2, [0, 1], calls, letters))
    program = (r % width) % kinds if chain else rng.integers(0, kinds, ranks)
    # A collective takes what the first member's program says; make that the same for all.
    for f in range(2):
        ticks = rng.choice(FEW, calls[f])
        for p, t in made:
            t[(p.family == f) & (p.ops.kind == Kind.COLLECTIVE)] = ticks
    template = Template(tuple(p for p, _ in made), program.astype(np.int32), groups, peers)
    return template, [t for _, t in made]


def written_out(template: Template, ticks: list[np.ndarray]) -> tuple[Lowered, np.ndarray]:
    """The expansion as an engine reads it, and the iteration of each op."""
    marked = [
        Program(p.ops.replace(label=base + np.arange(len(p))), p.successors, p.family)
        for p, base in zip(template.programs, np.cumsum([0, *map(len, ticks)]), strict=False)
    ]
    block = Template(tuple(marked), template.program, template.groups, template.peers).expand()
    fixed = np.concatenate(ticks)[block.ops.label]
    none = np.empty(0, np.int64)
    flows = Flows(none.astype(np.int32), none, none.astype(np.uint64), none,
                  np.zeros(1, np.int64), none.astype(np.int32), none)  # fmt: skip
    slot = np.full(len(block) + len(block.places), -1, np.int32)
    low = Lowered("t", block.places.op, slot, block.successors.indptr, block.successors.values,
                  none, fixed, flows, none.astype(np.int16))  # fmt: skip
    return low, block


def ends_by_rank(template: Template, ticks: list[np.ndarray], drawn=None) -> np.ndarray:
    """(ranks, iterations) last end, by the reference on the expansion."""
    low, block = written_out(template, ticks)
    if drawn is not None:
        low = Lowered(**{**vars(low), "fixed": drawn(low, block)})
    machine = ReferenceMachine(Parts((), *(np.empty(0, np.int32),), *(np.empty(0, np.int64),) * 2))
    machine.submit(low)
    machine.run()
    end = machine.columns().end
    place = block.op_of_place
    found = np.full((template.ranks, 2), -1, np.int64)
    np.maximum.at(found, (block.rank, block.ops.iteration[place]), end[place])
    return found


def ran(template: Template, ticks, chances=None):
    spread = [np.zeros(len(p), np.int8) for p in template.programs]
    return run(template, compile_programs(template, ticks, spread), chances or Chances.none())


def padded(end: np.ndarray) -> np.ndarray:
    return np.pad(end, ((0, 0), (0, 2 - end.shape[1])), constant_values=-1)


def test_a_template_equals_its_expansion():
    same = 0
    for seed in range(300):
        template, ticks = random_template(seed)
        try:
            want = ends_by_rank(template, ticks)
        except SimulationError:
            with pytest.raises(SimulationError):
                ran(template, ticks)
            continue
        try:
            found = ran(template, ticks)
        except SimulationError:  # ranks whose programs name collectives in crossed order
            continue
        assert found.end.max(axis=1).tolist() == want.max(axis=1).tolist(), seed
        if len(template.programs) == 1:  # else members may count a collective in other steps
            assert padded(found.end).tolist() == want.tolist(), seed
        same += 1
    assert same > 200


def test_factors_of_a_replica_equal_those_of_the_expansion():
    table = np.array([0.5, 0.9, 1.0, 1.3])
    prefix = np.array([bits(7, 3, 1)[0], bits(7, 3, 2, 99)[0]])
    quantiles = np.rint(table * 2**20).astype(np.int64)[None]
    chances = Chances(prefix, quantiles, quantiles)

    def drawn(low, block):
        step = factor(table, bits(7, 3, 1, block.ops.rank, block.ops.iteration))
        own = factor(table, bits(7, 3, 2, 99, np.arange(len(low))))
        return scaled(scaled(low.fixed, step), own)

    for seed in range(60):
        template, ticks = random_template(seed)
        ticks = [t * 1_000_003 for t in ticks]
        try:
            found = ran(template, ticks, chances)
            want = ends_by_rank(template, ticks, drawn)
        except SimulationError:
            continue
        assert found.end.max(axis=1).tolist() == want.max(axis=1).tolist(), seed


def test_folded_ranks_end_when_all_of_them_do():
    folded_any = 0
    for seed in range(300):
        template, ticks = random_template(seed)
        try:
            want = ran(template, ticks)
        except SimulationError:
            continue
        folded = fold(template)
        found = ran(folded.template, ticks)
        assert found.end[folded.colour].tolist() == want.end.tolist(), seed
        assert found.busy[folded.colour].tolist() == want.busy.tolist(), seed
        assert found.waiting[folded.colour].tolist() == want.waiting.tolist(), seed
        folded_any += folded.template.ranks < template.ranks
    assert folded_any > 50


def test_a_straggler_stays_apart_with_those_who_meet_it():
    work = Ops.of(kind=[Kind.COMPUTE, Kind.COLLECTIVE])
    programs = tuple(Program.chain(work, family=[-1, 0]) for _ in range(2))
    who = np.zeros(64, np.int32)
    who[9] = 1
    template = Template(programs, who, np.arange(64, dtype=np.int32)[None] // 8)
    folded = fold(template)
    assert folded.template.ranks == 3  # the straggler, its seven partners, all others
    ticks = [np.array([10, 1]), np.array([25, 1])]
    assert (
        ran(folded.template, ticks).end[folded.colour].tolist() == ran(template, ticks).end.tolist()
    )


def test_a_message_without_a_sender_is_refused():
    hears = Program.chain(Ops.of(kind=[Kind.RECV]), family=[0])
    template = Template((hears,), np.zeros(1, np.int32), peers=np.full((1, 1), -1, np.int32))
    with pytest.raises(GraphError, match="rank 0 hears from nobody over family 0"):
        template.expand()


def test_members_that_call_different_numbers_of_collectives_are_refused():
    one = Program.chain(Ops.of(kind=[Kind.COLLECTIVE]), family=[0])
    two = Program.chain(Ops.of(kind=[Kind.COLLECTIVE] * 2), family=[0, 0])
    template = Template((one, two), np.array([0, 1]), np.zeros((1, 2), np.int32))
    with pytest.raises(GraphError, match="rank 0 runs 1 collectives of family 0, others of its"):
        template.expand()


def test_a_dependency_on_a_later_row_is_refused():
    with pytest.raises(GraphError, match="row 0 of a program waits for row 1"):
        Program(Ops.of(rank=[0, 0]), Csr.of([[], [0]]), np.full(2, -1, np.int16))
