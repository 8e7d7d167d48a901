"""Classes of ranks with the same program and the same op timings.

Each op of a class is timed once, on one of its GPUs. Collectives are timed once per group and
messages once per sender, because their members differ.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..core.programs.chain_cover import NOBODY, count_chains_by_role
from ..engine_api.interface import ComponentTable, Flows
from ..facts.backend import Spread
from ..facts.csr import Csr
from ..facts.graph import Graph
from ..facts.kind import OUR_KINDS, Kind, kinds_with_role
from ..facts.roles import NETWORK, role_named_by_stream
from ..facts.spmd.spmd_graph import RankProgram, SpmdGraph
from ..kernel.factorize import number_by_first_appearance, number_rows
from ..record.bound_system import BoundSystem
from .query import PLAYED, NotUniform, QuestionTable, RankAnswers, reason_to_ask_every_op
from .shared_rates import TemplateFlows

Numbers = NDArray[np.int64]
WHAT = {Kind.COLLECTIVE: 1, Kind.SEND: 2, Kind.RECV: 3}


@dataclass(frozen=True)
class RankClasses:
    """Partition of the ranks of an SPMD graph into classes of equal program and equal timings.

    Parameters
    ----------
    template : SPMD graph with one program per class; its ``program`` is the class of every rank
    answers : for each class, the timing of its queries, shape (q, 2): duration in ticks; and one
        number with the index of its random distribution + 1 (0 for none) in the low 8 bits and the
        tally column in the bits above
    source : (32, classes) index into ``sources`` per tally column; -1 for none, ``SEVERAL`` for
        several
    source_of : for each class, (q,) index into ``sources`` of each query, -1 for none
    sources : descriptions of where timings come from
    component : (4, ranks) index of the component that plays each role for each rank; -1 for none
    spreads : distributions of durations, by number
    flows : flow of each timing query whose op shares a rate
    flow : for each rank, (q,) index into ``flows`` of each query, -1 for none; a collective's flow
        is listed only at its lead rank
    """

    template: SpmdGraph
    answers: tuple[Numbers, ...]
    source: Numbers
    source_of: tuple[Numbers, ...]
    sources: tuple[str, ...]
    component: NDArray[np.int32]
    spreads: tuple[Spread, ...]
    flows: Flows
    flow: tuple[NDArray[np.int32], ...]

    @cached_property
    def rank_flows(self) -> TemplateFlows:
        """Threads of all ranks with the flows of their ops."""
        return TemplateFlows.of_ranks(self.template, self.flow, self.flows)


def classify(
    simulation: BoundSystem, graph: Graph, template: SpmdGraph, ask_every_rank: bool = False
) -> RankClasses:
    """Ask backends to time the ops of an SPMD graph, and classify its ranks by program and timings.

    Parameters
    ----------
    ask_every_rank : True to query every rank's own ops separately; equal components take equal
        times, but each shares its own rates

    Raises
    ------
    NotUniform
        A timing does not hold for all ranks of a class, or not for the complete run.
    GraphError, BackendError
        The graph cannot be scheduled, or an op cannot be timed.
    """
    template.check()
    _refuse_other_roles(graph, template)
    question_table = QuestionTable(simulation, graph, template, ask_every_rank)
    made = [_ProgramClasses(question_table, p) for p in range(len(template.programs))]
    said = question_table.ask()
    rank_answers = RankAnswers.of(said, simulation, graph.name)
    if not ask_every_rank and any(of.shares_rates_for_other_ranks(rank_answers) for of in made):
        return classify(simulation, graph, template, ask_every_rank=True)
    program = np.zeros(template.ranks, np.int32)
    programs: list[RankProgram] = []
    answers: list[Numbers] = []
    source: list[Numbers] = []
    source_of: list[Numbers] = []
    flow: list[NDArray[np.int32]] = [np.empty(0, np.int32)] * template.ranks
    for of in made:
        if len(rank_answers.flows):
            for r, row in zip(of.ranks.tolist(), of.flows(rank_answers), strict=True):
                flow[r] = row
        which, tables, columns, each = of.classes(rank_answers)
        program[of.ranks] = len(programs) + which
        programs += [of.program] * len(tables)
        answers += tables
        source += columns
        source_of += each
    parted = replace(
        template, programs=tuple(programs), program=program, lead=template.group_leaders
    )
    _check_slots(parted, answers, question_table.component, simulation.parts)
    return RankClasses(
        parted,
        tuple(answers),
        np.array(source, np.int64).T,
        tuple(source_of),
        said.sources,
        question_table.component,
        tuple(s for _, s in said.spreads),
        rank_answers.flows,
        tuple(flow),
    )


def _refuse_other_roles(graph: Graph, template: SpmdGraph) -> None:
    """Raise NotUniform for kinds and roles that plug-ins registered: they have no column."""
    for program in template.programs:
        theirs = np.flatnonzero(program.ops.kind >= len(OUR_KINDS))
        if len(theirs):
            name = program.ops.take(theirs[:1]).kind_names[0]
            raise NotUniform(f"some of its ops have a kind that a plug-in registered ({name})")
    for name in {*graph.streams.values()}:
        if role_named_by_stream(name):
            raise NotUniform(f"one of its streams has a role that a plug-in registered ({name})")


class _ProgramQuestions(NamedTuple):
    """Timing queries for some ops of one program, sent for some of its ranks.

    Parameters
    ----------
    of : (q',) index of each query among all queries of the program
    rows : (queried ranks, q') row of each query in the query table
    who : (ranks,) for each rank, the row of ``rows`` with its timing; -1 for none
    """

    of: Numbers
    rows: Numbers
    who: Numbers


class _ProgramClasses:
    """Classification of the ranks that run one program, by the timings of its ops."""

    def __init__(self, question_table: QuestionTable, p: int):
        self.question_table, self.template = question_table, question_table.template
        self.program = question_table.template.programs[p]
        self.ranks = np.flatnonzero(question_table.template.program == p)
        try:
            first = self.program.encoded.first
        except OverflowError as error:
            raise NotUniform(str(error)) from error
        self.ops, self.family = self.program.ops.take(first), self.program.family[first]
        self.kind = self.ops.kind
        self.streams, self.holder = self._stream_holders()
        lonely = np.isin(self.kind, (Kind.SEND, Kind.RECV)) & (self.family < 0)
        if lonely.any():
            raise NotUniform("some of its sends or receives belong to no message family")
        self.questions = [
            *self._own_op_questions(),
            *self._recorded_questions(),
            *self._collective_questions(),
            *self._message_questions(),
        ]

    def _stream_holders(self) -> tuple[Numbers, Numbers]:
        """Group ranks by the roles that run their communication streams.

        Returns the group of each rank, shape (ranks,), and the role that runs each queried
        communication op, shape (groups, queries).
        """
        graph, network = self.question_table.graph, np.isin(self.kind, NETWORK)
        nobody = np.where(network, NOBODY, 0)
        if not graph.streams or not network.any():
            return np.zeros(len(self.ranks), np.int64), nobody[None]
        streams = np.unique(self.ops.stream[network]).tolist()
        seen: dict[tuple[str | None, ...], int] = {}
        which = [
            seen.setdefault(tuple(graph.role(r, s) for s in streams), len(seen))
            for r in self.ranks.tolist()
        ]
        found = np.repeat(nobody[None], len(seen), axis=0)
        for held, i in seen.items():
            for stream, role in zip(streams, held, strict=True):
                number = NOBODY if role is None else PLAYED.index(role)
                found[i, network & (self.ops.stream == stream)] = number
        return np.array(which, np.int64), found

    def _own_op_questions(self) -> list[_ProgramQuestions]:
        """Queries about ops that run on a component of the rank itself."""
        found = []
        for kind in kinds_with_role():
            of = np.flatnonzero(self.kind == kind)
            if not len(of):
                continue
            component = self.question_table.component[PLAYED.index(kind.role)][self.ranks]
            same = self.question_table.timing_groups[component]
            if np.any(same < 0):
                who = self.question_table.bound[int(component[np.argmax(same < 0)])]
                if who is not None:  # otherwise the query itself raises the error
                    raise NotUniform(reason_to_ask_every_op(who))
            if self.question_table.ask_every_rank:
                same = np.arange(len(same))
            which, first = number_by_first_appearance(same)
            rows = self.question_table.add(self.ops.take(of), self.ranks[first], component[first])
            found.append(_ProgramQuestions(of, rows, which))
        return found

    def _recorded_questions(self) -> list[_ProgramQuestions]:
        """Queries about delays and gaps, which last as long as recorded."""
        of = np.flatnonzero(np.isin(self.kind, (Kind.DELAY, Kind.GAP)))
        if not len(of) or not len(self.ranks):
            return []
        rows = self.question_table.add(self.ops.take(of), self.ranks[:1], np.array([-1], np.int32))
        return [_ProgramQuestions(of, rows, np.zeros(len(self.ranks), np.int64))]

    def _collective_questions(self) -> list[_ProgramQuestions]:
        """Queries about collectives, one per group, with the op of its lead member."""
        found = []
        for f, (groups, leads) in enumerate(
            zip(self.template.groups, self.template.group_leaders, strict=True)
        ):
            of = np.flatnonzero((self.kind == Kind.COLLECTIVE) & (self.family == f))
            if not len(of):
                continue
            lead = leads[groups[self.ranks]]
            leading = np.flatnonzero(lead == self.ranks)
            members = self.question_table.gpus_of_groups(f).take(groups[self.ranks[leading]])
            number = np.full(
                self.template.ranks, -1, np.int64
            )  # index of leads that run this program
            number[self.ranks[leading]] = np.arange(len(leading))
            found.append(self._fabric_questions(of, self.ranks[leading], members, number[lead]))
        return found

    def _message_questions(self) -> list[_ProgramQuestions]:
        """Queries about messages: sends by pair of GPUs, receives by one GPU."""
        found, every = [], np.arange(len(self.ranks))
        for f, to in enumerate(self.template.peers):
            for kind in (Kind.SEND, Kind.RECV):
                of = np.flatnonzero((self.kind == kind) & (self.family == f))
                if not len(of):
                    continue
                ends = [self.ranks]
                if kind == Kind.SEND:
                    ends.append(to[self.ranks])
                    if np.any(ends[1] < 0):
                        raise NotUniform("some of its sends have no receiver")
                gpus = self.question_table.gpus[np.stack(ends, axis=1)]
                indptr = np.arange(len(gpus) + 1) * gpus.shape[1]
                found.append(
                    self._fabric_questions(of, self.ranks, Csr(indptr, gpus.ravel()), every)
                )
        return found

    def _fabric_questions(
        self, of: Numbers, ranks: Numbers, members: Csr, who: Numbers
    ) -> _ProgramQuestions:
        """Queries to the fabric's backend for some ops of some ranks."""
        fabric = np.full(len(ranks), self.question_table.fabric, np.int32)
        return _ProgramQuestions(
            of, self.question_table.add(self.ops.take(of), ranks, fabric, members), who
        )

    def shares_rates_for_other_ranks(self, rank_answers: RankAnswers) -> bool:
        """True if an op shares a rate but its timing was queried for another, equal rank."""
        return any(
            len(a.rows) < len(self.ranks) and np.any(rank_answers.flow[a.rows] >= 0)
            for a in self.questions
            if not np.any(self.kind[a.of] == Kind.COLLECTIVE)
        )

    def flows(self, rank_answers: RankAnswers) -> NDArray[np.int32]:
        """(ranks, q) flow of each rank's query; a collective's only at its lead rank."""
        found = np.full((len(self.ranks), len(self.kind)), -1, np.int32)
        for a in self.questions:
            asks = np.flatnonzero(a.who >= 0)
            if len(a.of) and self.kind[a.of[0]] == Kind.COLLECTIVE:
                f = self.family[a.of[0]]
                leads = self.template.group_leaders[f][self.template.groups[f]]
                asks = asks[leads[self.ranks[asks]] == self.ranks[asks]]
            found[np.ix_(asks, a.of)] = rank_answers.flow[a.rows[a.who[asks]]]
        return found

    def classes(
        self, rank_answers: RankAnswers
    ) -> tuple[Numbers, list[Numbers], list[Numbers], list[Numbers]]:
        """Class of each rank; per class: timings, sources by tally column, sources by query."""
        labels = [self.streams]
        for a in self.questions:
            label, _ = number_rows(rank_answers.same[a.rows])
            labels.append(np.where(a.who >= 0, np.append(label, -1)[a.who], -1))
        which, first = number_rows(np.stack(labels, axis=1))
        made = [self._answers_of_rank(rank_answers, int(i)) for i in first]
        return which, [m[0] for m in made], [m[1] for m in made], [m[2] for m in made]

    def _answers_of_rank(
        self, rank_answers: RankAnswers, i: int
    ) -> tuple[Numbers, Numbers, Numbers]:
        """Timings, sources by tally column and sources by query of the ``i``-th rank."""
        answers = np.zeros((len(self.kind), 2), np.int64)
        holder = self.holder[self.streams[i]]
        what = np.array([WHAT.get(k, 0) for k in Kind], np.int64)[self.kind]
        column = np.where(what > 0, what * 8 + holder, self.kind)
        answers[:, 1] = column << 8
        source, source_of = np.full(32, -1, np.int64), np.full(len(self.kind), -1, np.int64)
        for a in self.questions:
            if a.who[i] < 0:
                continue
            rows = a.rows[a.who[i]]
            answers[a.of, 0] = rank_answers.ticks[rows]
            answers[a.of, 1] |= rank_answers.spread[rows]
            led = what[a.of] == WHAT[Kind.COLLECTIVE]
            at = np.where(led, LED, column[a.of])
            before = source[at]
            source[at] = source_of[a.of] = rank_answers.source[rows]
            mixed = (source[at] != rank_answers.source[rows]) | (
                (before != -1) & (before != source[at])
            )
            if np.any(led & mixed):
                raise NotUniform("the fabric gives several sources for one collective")
            source[at[mixed]] = SEVERAL
        return answers, source, source_of


LED = 12
SEVERAL = -2  # a column with several sources; see the sources by query


def _check_slots(
    template: SpmdGraph,
    answers: Sequence[Numbers],
    component: NDArray[np.int32],
    parts: ComponentTable,
) -> None:
    """Raise NotUniform if the ops of some rank may need more slots at once than there are."""
    slots = parts.slots
    if not np.any(slots[component[:3]] >= 0):
        return
    wanted = np.zeros(len(slots), np.int64)
    done: dict[tuple[int, bytes], Numbers] = {}
    for c, (program, answer) in enumerate(zip(template.programs, answers, strict=True)):
        column = answer[:, 1] >> 8
        role = np.where(column >= 8, column & 7, np.array([0, 1, 2, 3, 3, 3, 3, 3])[column & 7])
        key = id(program), role.tobytes()
        if key not in done:
            done[key] = count_chains_by_role(program, role[program.encoded.question])
        ranks = np.flatnonzero(template.program == c)
        for r in range(3):
            np.add.at(wanted, component[r][ranks], done[key][r])
    full = np.flatnonzero((wanted > slots) & (slots >= 0))
    if len(full):
        c = int(full[0])
        raise NotUniform(
            f"{wanted[c]} ops may need the {slots[c]} slots of {parts.names[c]} at once"
        )
