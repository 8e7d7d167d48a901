"""Commands of processes, applied to the compiled engine's state at the start of a turn."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Sequence

import numpy as np
import simpy

from ..engine_api.capacity_ledger import Grant
from ..engine_api.interface import NO_LIMIT, OVER, Answer, LostOp, State, TimingElsewhere
from ..engine_api.remaining_work import ALL, RemainingWork
from ..engine_api.store_interface import StoreInterface
from ..engine_api.validation import why_move_refused
from ..media.max_min.medium import set_rate
from .capacity import drop_claim, enqueue_claim, mark_claim_queue, release_claims_of_ended_op
from .memory import state_layout as lay
from .memory.plugged_memory import PluggedMemory
from .memory.state_layout import NONE
from .op_end import withdraw_op
from .slots import mark_slot_queue
from .state_view import StateView
from .submitted_graph import SubmittedGraph


class Actions(StateView):
    """Process commands in the compiled engine: fail, stop, resume, acquire and so on."""

    def _join(self, graph: SubmittedGraph) -> None:
        """Add a submitted graph to the memory of the run."""
        graph.ahead = None
        graph.join(self.store)
        self.to_join.remove(graph)  # as a rule the first
        self.joined.append(graph)
        self.bases.append(graph.base)
        self.roots.append((graph.base, self.store.cells))
        for op in graph.awaited:
            self._watch(graph.base + op - graph.first)
        graph.awaited.clear()
        if len(graph.shape.flows) and self.store.failed.any():
            for op in graph.shape.flows.op.tolist():
                self._mark_if_failed(graph.base + op)
        if not graph.count:
            self.news.append((graph.done, None))

    def _watch(self, c: int) -> None:
        """Mark an op whose end a process waits for."""
        self.store.flags[c] = self.store.flags.item(c) | lay.WATCHED
        if not self.store.world.item(lay.WATCHING):
            self.store.world[lay.WATCHING] = 1

    def _pop_end_event(self, c: int) -> simpy.Event:
        """Remove and return the SimPy event that fires when an op ends."""
        self.store.flags[c] = self.store.flags.item(c) & ~lay.WATCHED
        return self.ends.pop(self.op_id(c))

    def _mark_if_failed(self, c: int) -> None:
        """Mark an op as unable to start if it uses a failed component; otherwise clear the mark."""
        failed, row = self.store.failed, self.store.rows[c]
        row["flags"] &= ~lay.BARRED
        if any(failed[k] for k in self._usage(c)):
            row["flags"] |= lay.BARRED

    def _users(self, component: int) -> Iterable[int]:
        """Cell numbers of the ops that use a component and have not ended."""
        owners, rows = self.store.owners, self.store.rows
        for flow in self.store.sharing.users(component):
            c = int(owners[flow])
            if self.store.flow(c) == flow and rows[c]["state"] not in OVER:
                yield c

    def _use(self, c: int, work: int, usage: dict[int, int], limit: int) -> None:
        """Give an op a flow with the given work, usage and limit, replacing its old one."""
        sharing, flow = self.store.sharing, self.store.flow(c)
        if not usage and limit == NO_LIMIT:
            self.store.drop_flow(c)
        elif flow == NONE:
            flow = sharing.append(work, usage, limit)
            self.store.add_flow(c, flow)
            self._graph(c).extra.append(((flow, 1), sharing.uses_of(flow)))
        else:
            sharing.set_usage(flow, usage, limit)
            sharing.set_work_left(flow, work)
            self._graph(c).extra.append(((0, 0), sharing.uses_of(flow)))
        self._mark_if_failed(c)

    def _set_rate(self, component: int, rate: int) -> None:
        self.rate[component] = rate
        if not self.failed(component):
            self._change(component, rate)

    def _change(self, component: int, rate: int) -> None:
        store = self.store
        if self.parts.is_plugged([component]) and store.plugged is not None:
            now = store.world.item(lay.NOW)
            store.plugged.change(store.sharing.state, component, rate, now)
        else:
            set_rate(store.sharing.state, component, rate)
        store.world[lay.STALE] = 1

    def _fail(self, component: int) -> None:
        store = self.store
        store.part_table[component, lay.FAILED] = 1
        rows = store.rows[: store.cells]
        holding = np.flatnonzero((rows["slot"] == component) & (rows["at"] == lay.HELD))
        hit = {self.first_cell_of_op(int(c)) for c in holding}
        if self.rate[component] >= 0:
            self._change(component, 0)
            for c in self._users(component):
                rows[c]["flags"] |= lay.BARRED
                if rows[c]["state"] == lay.RUNNING:
                    hit.add(c)
        for c in sorted(hit):
            self._halt(c, f"the failure of {self.parts.names[component]}")
            graph = self._graph(c)
            left = self._work_left(c)
            graph.unreported.append(LostOp(self.op_id(c), int(rows[c]["left"]), left, component))
            self.losing.add(graph)

    def _work_left(self, c: int) -> int:
        flow = self.store.flow(c)
        return 0 if flow == NONE else self.store.sharing.work_left(flow)

    def _restore(self, component: int) -> None:
        store = self.store
        store.part_table[component, lay.FAILED] = 0
        if self.rate[component] >= 0:
            self._change(component, self.rate[component])
            for c in self._users(component):
                self._mark_if_failed(c)
        part = int(store.world[lay.PARTS]) + component * lay.PART
        if self.parts.capacity_of(component) < 0:
            mark_slot_queue(store.world, part)
        else:
            mark_claim_queue(store.world, part)

    def _leave(self, c: int) -> None:
        store = self.store
        if store.rows[c]["flags"] & lay.STARTED:
            op = self.op_id(c)
            self.earlier[op] = self.earlier.get(op, 0) + 1
        if store.plugged is not None:
            self._leave_plugged(store.plugged, c)
        withdraw_op(store.rows, store.times, store.world, store.sharing.state, c)

    def _leave_plugged(self, plugged: PluggedMemory, c: int) -> None:
        """Remove an op's flow from the plugged-in medium, if it is there."""
        store, flags = self.store, self.store.flags.item(c)
        if flags & lay.FLOWING and self.parts.is_plugged(self._usage(c)):
            plugged.stop(store.sharing.state, store.flow(c), store.world.item(lay.NOW))
            store.flags[c] = flags & ~lay.FLOWING
            store.world[lay.FLOWS] -= 1
            store.world[lay.STALE] = 1

    def _request_capacity(self, grant: Grant) -> None:
        grant.place = self.store.add_claim(grant.component, grant.amount)
        self.asked[grant.place] = grant
        enqueue_claim(self.store.world, grant.place)

    def _withdraw_request(self, grant: Grant) -> None:
        drop_claim(self.store.world, grant.place)
        del self.asked[grant.place]
        self.store.claim_rows.free(grant.place, 1)

    def _hold_capacity(self, component: int, amount: int) -> None:
        self.store.part_table[component, lay.TAKEN] += amount

    def _return_capacity(self, component: int, amount: int) -> None:
        self.store.part_table[component, lay.TAKEN] -= amount
        mark_claim_queue(self.store.world, int(self.store.world[lay.PARTS]) + component * lay.PART)

    def _new_store(self, component: int) -> StoreInterface:
        from .stores.entry_store import EntryStore  # only for runs with stores

        return EntryStore(self.parts.capacity_of(component), self.parts.stores[component])

    def _stop(self, op: int, who: str) -> None:
        if not self._is_over(op):
            self._halt(self.cell(op), who)

    def _halt(self, c: int, who: str) -> None:
        row = self.store.rows[c]
        if row["state"] in (lay.PENDING, lay.RUNNING):
            self._leave(c)
            row["state"] = lay.STOPPED
            self.stopped_by[self.op_id(c)] = who

    def _resume(
        self,
        op: int,
        keep: bool,
        slots: Sequence[int] | None,
        usage: dict[int, int] | None,
        there: TimingElsewhere | None,
    ) -> None:
        if self._is_over(op):
            return
        store, c = self.store, self.cell(op)
        row = store.rows[c]
        if row["state"] != lay.STOPPED:
            state = State(int(row["state"])).name.lower()
            raise self._cannot_resume_error(op, f"it is {state}; stop it first")
        row["state"] = lay.PENDING
        if there is not None:
            self._move(c, there, self._left(c) if keep else ALL)
        elif not keep:
            self._start_over(c)
        places = store.places(c)
        for p, slot in zip(places, slots or (), strict=slots is not None):
            store.rows[p]["slot"] = slot
        bound, left = self._limit(c), self._work_left(c)
        if left and usage and (wrong := why_move_refused(self.parts, self._usage(c), usage)):
            raise self._cannot_resume_error(op, wrong)
        uses = self._usage(c) if usage is None else dict(usage)
        if left and bound == NO_LIMIT and not uses:
            why = "neither usage nor limit bounds the rate of its work"
            raise self._cannot_resume_error(op, why)
        if usage is not None:
            self._use(c, left, uses, bound)
        self.roots += [(p, p + 1) for p in places]

    def _start_over(self, c: int) -> None:
        """Reset an op to its full work, and ask an online backend for a new timing."""
        if self.store.rows[c]["flags"] & lay.SENT:
            return  # it is timed when it starts
        graph = self._graph(c)
        row, flow = c - graph.base, self.store.flow(c)
        fixed, work = graph.full_times(row)
        self.store.rows[c]["left"] = fixed
        if graph.is_online(row):
            self.store.rows[c]["flags"] |= lay.ASK
            graph.share.pop(row, None)
        if flow != NONE:
            self.store.sharing.set_work_left(flow, work)
        elif work:
            raise self._cannot_resume_error(self.op_id(c), "nothing bounds the rate of its work")

    def _left(self, c: int) -> RemainingWork:
        """Fraction of an op's work that remains."""
        graph = self._graph(c)
        row, cell = c - graph.base, self.store.rows[c]
        if cell["flags"] & lay.ASK:
            return graph.share.get(row, ALL)
        fixed, work = graph.online_times(row) if graph.is_online(row) else graph.full_times(row)
        return RemainingWork(int(cell["left"]), fixed, self._work_left(c), work)

    def _move(self, c: int, there: TimingElsewhere, left: RemainingWork) -> None:
        """Resume an op on other components, with the given fraction of its work left."""
        graph, cell = self._graph(c), self.store.rows[c]
        row = c - graph.base
        graph.moved[row] = there
        cell["flags"] &= ~lay.SENT
        if isinstance(there, Answer):
            cell["flags"] &= ~lay.ASK
            graph.share.pop(row, None)
            cell["left"], work = left.apply_to(there.fixed, there.work)
            self._use(c, work, dict(there.usage), there.limit)
        else:
            cell["flags"] |= lay.ASK
            cell["left"], graph.share[row] = 0, left
            self.store.world[lay.ONLINE] = 1
            self._use(c, 0, {}, NO_LIMIT)

    def _limit(self, c: int) -> int:
        flow = self.store.flow(c)
        return NO_LIMIT if flow == NONE else self.store.sharing.limit(flow)

    def _cancel(self, ops: Sequence[int]) -> None:
        store, rows, links = self.store, self.store.rows, self.store.links
        gone: set[int] = set()
        todo = [self.cell(op) for op in ops if not self._is_over(op)]
        while todo:
            c = todo.pop()
            if c not in gone and rows[c]["state"] not in OVER:
                gone.add(c)
                after = links[rows[c]["first"] : rows[c + 1]["first"]]
                todo += [self.first_cell_of_op(p) for p in after.tolist()]
        for c in sorted(gone):
            self._leave(c)
            rows[c]["state"] = lay.CANCELLED
            if rows[c]["flags"] & (lay.HOLDS | lay.LETS):
                release_claims_of_ended_op(rows, store.world, c)
            if rows[c]["flags"] & lay.WATCHED:
                self.news.append((self._pop_end_event(c), "cancelled"))
            store.world[lay.OPEN] -= 1
            k = bisect_right(self.bases, c) - 1
            store.graph_table[k, lay.OPEN_OPS] -= 1
            if store.graph_table[k, lay.OPEN_OPS] == 0:
                self.news.append((self.joined[k].done, None))
