"""Random scripts of small integers, so that everything ties with everything.

The same kind and seed draw the same script on any machine.
"""

from __future__ import annotations

import random
from typing import Any

from engine_scripts.script import Script, Step
from foretrace.sim.engine_api.engine_literal import LiteralOp
from foretrace.sim.engine_api.interface import MAX_TICK, NO_LIMIT, ONE
from foretrace.sim.engine_api.store_interface import PARTS

KINDS = (
    "plain", "online", "timed", "lost", "verbs", "large", "capacity", "edges", "prepared", "store",
    "mail", "bounded",
)  # fmt: skip
RULES = ("lru", "oldest", "window", "order")

WEIGHTS = (-1, 0, 1, ONE // 48, 2**61, 2**62 - 1, 2**62, MAX_TICK)  # the edges


def random_script(kind: str, seed: int) -> Script:
    """One random script.

    Parameters
    ----------
    kind : str
        ``plain`` has no processes, ``online`` asks backends during the run, ``timed`` changes
        rates and fails and restores components at given ticks, ``lost`` resumes what failures
        stopped, ``verbs`` has everything, ``large`` as ``verbs`` with numbers near the limits,
        ``capacity`` as ``verbs`` with amounts that ops and processes hold, ``edges`` as ``verbs``
        with numbers and components that cannot be, ``prepared`` as ``verbs`` with graphs that are
        handed in often and given back, some of which hold amounts or are odd, ``store`` as
        ``verbs`` with stores, whose entries processes hold, release, split and look at, ``mail``
        as ``verbs`` with processes that send each other messages, ``bounded`` as ``verbs`` or
        ``prepared`` with queues that turn ops away.
    seed : int

    Examples
    --------
    >>> one = random_script("plain", 1)
    >>> one == random_script("plain", 1), one.actors
    (True, ())
    """
    return _Draw(kind, seed).script()


class _Draw:
    """Draws the parts of one script."""

    def __init__(self, kind: str, seed: int):
        self.kind, self.r = kind, random.Random(f"{kind} {seed}")
        r = self.r
        slots = [r.choice([1, 1, 1, 2, 3]) for _ in range(r.randint(1, 4))]
        rates = [self.rate() for _ in range(r.randint(1, 5))]
        if r.random() < 0.85:
            rates = [v or 3 for v in rates]
        self.scale = 1 << r.choice([0, 20, 33, 50, 51]) if kind == "large" else 1
        rates = [self.scaled(v) for v in rates]
        self.slots, self.rates = [*slots, *([-1] * len(rates))], [*([-1] * len(slots)), *rates]
        self.queues = list(range(len(slots)))
        self.shared = list(range(len(slots), len(self.slots)))
        self.stores: list[int] = []
        self.whole: list[int] = []
        self.edges = kind == "edges" or (kind == "prepared" and r.random() < 0.3)
        if kind == "capacity" or (kind in ("prepared", "bounded") and r.random() < 0.5):
            self.add_stores()
        self.caches: list[int] = []
        self.rules: list[str] = []
        if kind == "store":
            self.add_caches()
        self.bounded = self.bounds() if kind == "bounded" else ()
        away = {c for c, _, rule, _ in self.bounded if rule != "wait"}
        self.patient = [c for c in self.queues if c not in away or r.random() < 0.01]
        self.order = r.random()  # below 1/2, collectives take their members in one order
        self.weights = r.choice([[12], [12], [1, 2, 3, 4, 7, 12, 24, 25], [11, 12, 13]])
        self.durations = r.choice(
            [[0, 1, 2, 3], [0, 0, 0, 1], [2], [0, 1, 5, 10, 10], [3, 3, 3, 0]]
        )
        self.works = r.choice(
            [[0, 1, 2, 3, 6], [12], [0, 30, 60], [1, 7, 11, 13, 100], [6, 6, 6, 0]]
        )
        self.asks = r.random() < {"plain": 0.0, "online": 1.0}.get(kind, 0.3)
        self.horizon = r.choice([5, 12, 30])
        self.count = 0  # ops in the graphs that are submitted before the run
        self.prepared: list[tuple[LiteralOp, ...]] = []

    def add_stores(self) -> None:
        """Capacities, behind all other components."""
        r, first = self.r, len(self.slots)
        unit = r.choice([1, 1, 1, 2**60])
        self.whole = [r.randint(1, 7) * unit for _ in range(r.randint(1, 3))]
        self.stores = list(range(first, first + len(self.whole)))
        self.slots += [-1] * len(self.whole)
        self.rates += [-1] * len(self.whole)

    def add_caches(self) -> None:
        """Stores, behind all other components; at times with capacities in front."""
        r = self.r
        if r.random() < 0.3:
            self.add_stores()
        count = r.randint(1, 2)
        self.caches = list(range(len(self.slots), len(self.slots) + count))
        self.rules = [*[""] * len(self.slots), *(r.choice(RULES) for _ in range(count))]
        self.whole += [r.randint(1, 9) for _ in range(count)]
        self.slots += [-1] * count
        self.rates += [-1] * count

    def bounds(self) -> tuple[tuple[int, int, str, tuple[int, ...]], ...]:
        """Bounded queues in front of most components with slots."""
        r, found = self.r, []
        for c in self.queues:
            others = [other for other in self.queues if other != c]
            rules = ["wait", "drop", "drop", *(["elsewhere"] * 3 if others else [])]
            rule = r.choice(rules)
            chosen = r.sample(others, r.randint(1, len(others))) if rule == "elsewhere" else []
            if r.random() < 0.85:
                found.append((c, r.choice([0, 0, 1, 1, 2, 3]), rule, tuple(chosen)))
        return tuple(found)

    def rate(self) -> int:
        r = self.r
        return r.choice([0, 1, 2, 3, 3, 4, 5, 7, 12, 30]) if r.random() < 0.9 else r.randint(1, 100)

    def scaled(self, value: int) -> int:
        """Large and next to a tie, in a ``large`` script."""
        off = self.r.choice([-1, 0, 0, 1]) if self.scale > 1 and value else 0
        return value * self.scale + off

    def script(self) -> Script:
        r = self.r
        sizes = [r.randint(1, 14) if r.random() < 0.9 else r.randint(15, 40)]
        while r.random() < 0.2:
            sizes.append(r.randint(0, 5))
        graphs = [self.cases(n) for n in sizes]
        self.count = sum(sizes)
        actors = {
            "timed": self.timed,
            "lost": self.losing,
            "verbs": self.verbs,
            "large": self.verbs,
            "edges": self.verbs,
            "capacity": self.verbs if r.random() < 0.8 else lambda: [],
            "prepared": self.serving,
            "store": self.verbs,
            "mail": lambda: [self.mailing() for _ in range(r.randint(1, 4))] + self.verbs(),
            "bounded": self.any_actors,
        }.get(self.kind, lambda: [])()
        pauses = sorted({r.randint(0, self.horizon) for _ in range(2)}) if r.random() < 0.2 else []
        return Script(
            tuple(self.slots),
            tuple(self.rates),
            tuple(graphs),
            tuple(tuple(a) for a in actors if a),
            tuple(pauses),
            tuple(r.choices("ab", [4, 1], k=len(self.slots))) if self.edges else (),
            tuple([-1] * (len(self.slots) - len(self.whole)) + self.whole) if self.whole else (),
            tuple(self.prepared),
            rules=tuple(self.rules),
            queues=self.bounded,
        )

    def cases(self, n: int) -> tuple[LiteralOp, ...]:
        """The ops of one graph."""
        cases = [self.case(i) for i in range(n)]
        if self.stores:
            cases = [case._replace(holds=self.holds(i, n)) for i, case in enumerate(cases)]
        if n > 1 and self.r.random() < 0.005:  # a cycle
            cases[0] = cases[0]._replace(places=((-1, (n - 1,)),))
            cases[-1] = cases[-1]._replace(places=((-1, (0,)),))
        return tuple(cases)

    def case(self, i: int) -> LiteralOp:
        r = self.r
        phase = r.random()
        fixed = r.choice(self.durations) if phase < 0.7 else 0
        work, usage, limit = 0, (), NO_LIMIT  # type: int, tuple[tuple[int, int], ...], int
        if phase > 0.4:
            work, usage = self.scaled(r.choice(self.works)), self.usage()
            if r.random() < 0.2:
                limit = self.scaled(r.choice([0, 1, 2, 3, 5] if r.random() < 0.1 else [1, 2, 3]))
                if r.random() < 0.2:
                    usage = ()
        release = r.choice([0, 0, 0, 0, 1, 2, 3, 5, 5, 10])
        if r.random() < 0.002 and self.kind in ("verbs", "large"):
            release = MAX_TICK
        if r.random() < 0.01 and self.kind == "large" and usage:
            work = r.choice([2**127 - 1, 2**126 + 5, 2**100])
        online = r.randrange(3) if self.asks and r.random() < 0.4 else -1
        found = LiteralOp(self.places(i), fixed, work, usage, limit, release, online)
        odd = self.edges and r.random() < (0.02 if online < 0 else 0.1)
        return self.odd(found) if odd else found

    def odd(self, case: LiteralOp) -> LiteralOp:
        """An op of which something cannot be, or hardly."""
        r, top = self.r, 2**127 if case.online >= 0 and not case.online % 2 else 2**127 - 1
        c = r.choice(self.shared)
        strange: list[dict[str, Any]] = [
            {"usage": (*case.usage, *case.usage[:1])},
            {"usage": ((r.choice([-1, 99, *self.queues]), ONE),)},
            {"usage": ((c, r.choice(WEIGHTS)),), "work": r.choice(self.works)},
            {"limit": r.choice([-2, 0, 2**62 - 1, 2**62, MAX_TICK])},
            {"work": r.choice([-1, 1, 2**126 + 1, top])},
            {"fixed": r.choice([-1, MAX_TICK, MAX_TICK - 3])},
        ]
        return case._replace(**r.choice(strange))

    def holds(self, i: int, n: int) -> tuple[tuple[int, int, int], ...]:
        """What an op holds: mostly little, some of it until another op has ended."""
        r = self.r
        if r.random() < 0.5:
            return ()
        others = [j for j in range(max(0, i - 3), min(n, i + 4)) if j != i]
        found = []
        for c in r.sample(self.stores, r.randint(1, min(2, len(self.stores)))):
            until = r.choice(others) if others and r.random() < 0.3 else -1
            found.append((c, self.amount(c), until))
            if r.random() < 0.05:
                found.append((c, 1, -1))  # twice, and at times more than there is
        return tuple(found)

    def amount(self, c: int) -> int:
        r, whole = self.r, self.whole[c - self.stores[0]]
        few = max(1, whole // r.choice([1, 2, 2, 3, 3, 4]))
        return min(few + r.choice([0, 0, 0, 1, -1]), whole) or 1

    def usage(self) -> tuple[tuple[int, int], ...]:
        r = self.r
        near = r.choice([-1, 1]) if r.random() < 0.05 else 0  # levels that nearly tie
        chosen = r.sample(self.shared, r.randint(1, min(3, len(self.shared))))
        heavy = 1 << 21 if self.edges and r.random() < 0.1 else 1  # two are too many
        return tuple((c, (r.choice(self.weights) * ONE // 12 + near) * heavy) for c in chosen)

    def places(self, i: int) -> tuple[tuple[int, tuple[int, ...]], ...]:
        r = self.r
        kind = r.random()
        if kind < 0.2 and len(self.patient) > 1:
            names = r.sample(self.patient, r.randint(2, len(self.patient)))
            names = sorted(names) if self.order < 0.5 else names
            if r.random() < 0.03:
                names[0] = names[1]  # two places on one component
            after = self.after(i)
            return tuple((c, after if self.order < 0.6 else self.after(i)) for c in names)
        return ((r.choice(self.queues) if kind < 0.75 else -1, self.after(i)),)

    def after(self, i: int) -> tuple[int, ...]:
        r = self.r
        if i == 0 or r.random() < 0.45:
            return ()
        return tuple(sorted({r.randrange(max(0, i - 6), i) for _ in range(r.randint(1, 3))}))

    # processes

    def op(self) -> int:
        return self.r.randrange(self.count + 5)

    def any_part(self) -> int:
        if self.stores and self.r.random() < 0.2:
            return self.r.choice(self.stores)
        return self.r.choice(self.queues if self.r.random() < 0.6 else self.shared)

    def timed(self) -> list[list[Step]]:
        """Processes that act at given ticks."""
        return [self.clockwork() for _ in range(self.r.randint(1, 3))] + [self.repair()]

    def clockwork(self) -> list[Step]:
        r, steps = self.r, []  # type: random.Random, list[Step]
        for tick in sorted(r.randint(0, self.horizon) for _ in range(r.randint(1, 4))):
            steps += [("at", tick), ("observe",)]
            if r.random() < 0.5:
                steps.append(("set_rate", r.choice(self.shared), self.new_rate()))
            else:
                steps += self.outage()
        return steps

    def new_rate(self) -> int:
        return self.scaled(self.r.choice([0, 1, 2, 3, 5, 12]))

    def outage(self) -> list[Step]:
        r, c = self.r, self.any_part()
        steps: list[Step] = [("fail", c)]
        if r.random() < 0.6:
            steps.append(("wait", r.choice([0, 0, 1, 3])) if r.random() < 0.8 else ("settled",))
            steps += [
                ("resume_stopped", op, r.random() < 0.5, self.place(), None, self.there())
                for op in range(self.count)
            ]
        if r.random() < 0.5:
            steps += [("wait", r.choice([0, 1, 4])), ("restore", c)]
        return steps

    def place(self) -> int | None:
        return self.r.choice(self.queues) if self.r.random() < 0.3 else None

    def there(self) -> tuple[bool, LiteralOp] | None:
        """What an op takes where it goes on: an answer, or what a backend says when it starts."""
        r = self.r
        if r.random() < 0.5:
            return None
        usage = self.usage() if r.random() < 0.5 else ()
        limit = self.scaled(r.choice([1, 2, 3])) if r.random() < 0.3 else NO_LIMIT
        bound = bool(usage) or limit != NO_LIMIT
        work = self.scaled(r.choice(self.works)) if bound and r.random() < 0.7 else 0
        fixed = r.choice(self.durations) if r.random() < 0.7 else 0
        return r.random() < 0.4, LiteralOp(fixed=fixed, work=work, usage=usage, limit=limit)

    def repair(self) -> list[Step]:
        """Mostly, everything works again at the end."""
        if self.r.random() < 0.2:
            return []
        rates: list[Step] = [("set_rate", c, self.scaled(3)) for c in self.shared]
        parts = [("restore", c) for c in (*self.queues, *self.shared)] * (self.r.random() < 0.7)
        return [("at", self.horizon + 8), *rates, *parts, *self.returns()]

    def returns(self) -> list[Step]:
        """Mostly, nothing is held for ever."""
        if not self.stores or self.r.random() < 0.2:
            return []
        some: list[Step] = [("restore", c) for c in self.stores]
        for _ in range(4):
            some += [("release_all", 0), ("release_all", 1), ("wait", self.r.randint(0, 9))]
        return some

    def losing(self) -> list[list[Step]]:
        """Processes that fail components, and one that is told what was lost."""
        rescue = ("rescue", 0, self.r.random() < 0.5, self.place(), self.r.randint(1, 6))
        return [[rescue], *self.timed()]

    def verbs(self) -> list[list[Step]]:
        """Processes that do anything at any time."""
        r = self.r
        actors = [self.anything() for _ in range(r.randint(1, 5))]
        if r.random() < 0.5:
            actors += self.losing()[:2]
        if r.random() < 0.3:
            actors.append([("monitor", r.randint(1, 4), 40)])
        return [*actors, self.repair()]

    def serving(self) -> list[list[Step]]:
        """Processes that hand prepared graphs in, again and again, beside some that do anything."""
        r = self.r
        self.prepared = [self.cases(r.randint(0, 6)) for _ in range(r.randint(1, 3))]
        servers = [self.server() for _ in range(r.randint(1, 3))]
        others = self.verbs()
        return [*servers, *others[: r.randint(0, 2)], *others[-1:]]

    def any_actors(self) -> list[list[Step]]:
        """Processes that do anything, or that hand prepared graphs in, or none."""
        draws = self.verbs, self.serving, lambda: []
        return self.r.choice(draws)()

    def server(self) -> list[Step]:
        r, steps = self.r, []  # type: random.Random, list[Step]
        for _ in range(r.randint(2, 12)):
            shape = r.randrange(len(self.prepared))
            rows = [i for i in range(len(self.prepared[shape])) if r.random() < 0.4]
            steps += [("repeat", shape, tuple(self.other(i) for i in rows))] * r.choice(
                [1, 1, 1, 3]
            )
            if r.random() < 0.7:
                steps.append(("done", r.randrange(20)) if r.random() < 0.4 else self.waiting())
            if r.random() < 0.4:
                steps.append(("give_back",))
            if r.random() < 0.2:
                steps += [("observe",), *self.acting()]
        return [*steps, ("give_back",), ("observe",)]

    def other(self, row: int) -> tuple[int, int, int, int, int]:
        """Other numbers of an op."""
        r = self.r
        work, less = self.scaled(r.choice(self.works)), r.choice([0, 1, 1, 2])
        return row, r.choice(self.durations), work, r.choice([1, 2, 3]), less

    def anything(self) -> list[Step]:
        r, steps = self.r, []  # type: random.Random, list[Step]
        for _ in range(r.randint(1, 6)):
            if r.random() < 0.85:
                steps.append(self.waiting())
            if r.random() < 0.3:
                steps.append(("observe",))
            steps += self.acting()
        return steps

    def mailing(self) -> list[Step]:
        """A process that sends and receives, at times no longer than for some ticks."""
        r, steps = self.r, []  # type: random.Random, list[Step]
        for _ in range(r.randint(3, 12)):
            box, ticks = r.randrange(2), r.choice([0, 0, 1, 2, 5])
            steps.append(
                r.choice(
                    [
                        ("send", box, r.randrange(9)),
                        ("send", box, r.randrange(9)),
                        ("receive", box),
                        ("receive_within", box, ticks),
                        ("receive_within", box, ticks),
                        ("wait", ticks),
                        ("interrupt", r.randrange(9)),
                        ("settled",),
                    ]
                )
            )
        return steps

    def waiting(self) -> Step:
        r = self.r
        waits: list[tuple[Any, ...]] = [
            ("at", r.randint(0, self.horizon)),
            ("wait", r.choice([0, 0, 1, 2, 5])),
            ("ended", self.op()),
            ("ended", self.op()),
            ("done", r.randrange(3)),
            ("lost", r.randrange(3)),
            ("settled",),
            ("reaches", *self.bound()),
        ]
        if self.stores:
            held = self.share()
            waits += [
                ("acquire", *held),
                ("acquire", *held),
                ("race", *held, r.choice([0, 1, 2, 5])),
                ("race", *held, r.choice([0, 1, 2, 5])),
                ("await", r.randrange(4)),
            ]
        return r.choice(waits)

    def share(self) -> tuple[int, int, int]:
        """Component, amount (once in a while too much), owner."""
        r, c = self.r, self.r.choice(self.stores)
        amount = self.amount(c) if r.random() < 0.97 else r.choice([0, 2**62 + 2**61])
        return c, amount, r.choice([0, 0, 1])

    def holding(self) -> list[Step]:
        """Take, ask or give back."""
        r, (c, amount, owner) = self.r, self.share()
        steps: list[list[Step]] = [
            [("take", c, amount, owner)],
            [("take", c, amount, owner), ("take", c, 1, owner)],
            [("ask", c, amount, owner)],
            [("ask", c, amount, owner), ("give", r.randrange(4))],
            [("release", c, amount, owner)],
            [("give", r.randrange(4))],
            [("give", r.randrange(4))],
            [("release_all", owner)],
            [("interrupt", r.randrange(4))],
            [("fail", c), ("wait", r.choice([0, 1, 3])), ("restore", c)],
        ]
        return r.choice(steps)

    def bound(self) -> tuple[Any, ...]:
        r = self.r
        what = r.choice(["queue", "held", "flows"])
        c = r.choice(self.shared if what == "flows" else self.queues + self.stores + self.caches)
        n = r.randint(0, 3)
        return what, c, *r.choice([(n, None), (None, n), (n, n)])

    def caching(self) -> list[Step]:
        """Some actions on a store, with a look at it now and then."""
        r, c = self.r, self.r.choice(self.caches)
        steps: list[Step] = []
        for _ in range(r.randint(1, 5)):
            key = r.randint(0, 5) if r.random() < 0.9 else PARTS - r.randint(1, 5)
            size = 1 + key % 3 if r.random() < 0.97 else r.choice([0, 1, 2, 99])
            owner = r.choice([0, 0, 1])
            steps += r.choice(
                [
                    [("hold", c, key, size, owner)],
                    [("hold", c, key, size, owner)],
                    [("hold", c, key, size, owner), ("let_go", c, key, owner)],
                    [("hold", c, key, size, owner), ("hold", c, key + 1, 1 + (key + 1) % 3, owner)],
                    [("let_go", c, key, owner)],
                    [("let_go", c, key, owner), ("hold", c, key + 1, 1 + (key + 1) % 3, owner)],
                    [("let_go_all", c, owner)],
                    [("release_all", owner)],
                    [("forget", c, key)],
                    [("touch", c, key)],
                    [("rank", c, key, r.randint(-2, 2))],
                    [("split", c, key, (1,) * size)],
                    [("kill", r.randrange(4))] if r.random() < 0.3 else [("settled",)],
                    [("fail", c), ("settled",), ("hold", c, key, size, owner), ("restore", c)],
                ]
            )
            if r.random() < 0.5:
                steps.append(("look", c))
        return steps

    def acting(self) -> list[Step]:
        if self.caches and self.r.random() < 0.7:
            return self.caching()
        if self.stores and self.r.random() < 0.5:
            return self.holding()
        r, kind = self.r, self.r.random()
        if kind < 0.15:
            return [("submit", self.cases(r.randint(0, 5)))]
        if kind < 0.45:
            return self.moving()
        if kind < 0.6:
            return [("cancel", self.op()) if r.random() < 0.8 else ("drop", r.randrange(3))]
        if kind < 0.75:
            return [("set_rate", self.any_part(), self.new_rate())]
        return self.outage()

    def weight(self) -> int:
        odd = self.edges and self.r.random() < 0.2
        return self.r.choice(WEIGHTS) if odd else ONE

    def moving(self) -> list[Step]:
        """Stop an op, and mostly let it go on."""
        r, op = self.r, self.op()
        usage = ((r.choice(self.shared), self.weight()),) if r.random() < 0.3 else None
        how = (op, r.random() < 0.5, self.place(), usage, self.there())
        between = [self.waiting()] if r.random() < 0.5 else []
        going_on = ("resume" if r.random() < 0.1 else "resume_stopped", *how)
        now = [("resume", *how)] if r.random() < 0.3 else [*between, going_on]
        return [("stop", op), *(now if r.random() < 0.8 else [])]
