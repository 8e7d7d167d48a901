"""A sweep in progress: points are chosen, run unless known, stored and reported."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace

from ...config.condition import Condition
from ...config.reading.tree import Plain
from ...config.scenario import Scenario
from ...config.sections.sweep import Sweep, settings_of_value
from ..variants.answers import answer_of
from ..workers.worker_pool import Outcome, Task, WorkerPool
from .method import FixedPoints, Method, make_method
from .outcomes import OutcomeStore
from .plan_points import plan_points
from .ranking import rank_points
from .sweep_summary import Ranking, Swept, best_trials
from .task import Settings, evaluate_point, make_task, point_key, poison_outcome, shared_task_part
from .trial import SweepTrial

SHOWN = (  # metrics shown for every point, besides objectives and conditions
    "exposed_communication.mean",
    "makespan",
    "tokens_per_second.p50",
    "cost_per_million_tokens",
    "cost_per_hour",
    "gpu_time_per_million_tokens",
    "gpu.power.bound",
)


@dataclass(frozen=True)
class Shard:
    """Part of a sweep: every ``count``-th point from the ``number``-th on; 1 of 1 is all."""

    number: int = 1
    count: int = 1


Progress = Callable[[SweepTrial], None]
ALL = Shard()


@dataclass
class SweepInProgress:
    """A sweep in progress.

    Parameters
    ----------
    scenario : Scenario
    store : store of outcomes
    workers : pool that runs points
    progress : called with each finished point
    shard : part of the points to run
    resume : True to reuse stored outcomes
    """

    scenario: Scenario
    store: OutcomeStore
    workers: WorkerPool
    progress: Progress = lambda _: None
    shard: Shard = ALL
    resume: bool = True

    def __post_init__(self) -> None:
        self.section: Sweep = self.scenario.section("sweep")
        self.shared = shared_task_part(self.scenario)
        answer = answer_of(self.scenario)
        shown = (answer.metric, f"{answer.sample}.p95") if answer.statistic else (answer.metric,)
        self.shown = tuple(dict.fromkeys((*shown, *SHOWN)))
        self.wanted = tuple(
            dict.fromkeys(
                [*[o.metric for o in self.section.optimize], *[c.name for c in self.limits]]
            )
        )
        found = self.store.outcomes() if self.resume else ()
        self.known: dict[str, SweepTrial] = {}
        for outcome in found:
            if "error" not in outcome:
                trial = self._make_trial({}, outcome)
                self.known[trial.key] = replace(trial, cached=True)
        self.asked = 0
        self.tasks: dict[str, Task] = {}

    @property
    def limits(self) -> tuple[Condition, ...]:
        """Conditions of ``expect``."""
        return tuple(e.that for e in self.scenario.expect)

    def try_all_points(self) -> Swept:
        """Run every point, or those of the shard."""
        found = self.try_points([{}])
        chooser = self._method()
        start = found[0] if found else SweepTrial({}, "")
        tried: dict[str, SweepTrial] = {}
        asked = 0
        while batch := chooser.ask():
            asked += len(batch)
            found = self.try_points(batch)
            chooser.tell([{"values": t.values} if t.error is None else {} for t in found])
            for trial in found:
                tried.setdefault(trial.key, trial)
        done = Swept(self.scenario, chooser.name, start, tuple(tried.values()), asked)
        return replace(done, ranking=self._ranking(done)) if self.shard.count == 1 else done

    def _method(self) -> Method:
        if self.section.method == "plans":
            return FixedPoints("every parallel plan", iter(plan_points(self.scenario)))
        strict = [e.that for e in self.scenario.expect if e.otherwise == "fail"]
        return make_method(self.section, self.scenario.run.seed, strict)

    def _ranking(self, done: Swept) -> Ranking:
        """Best points in order, each with its differences from others and their intervals."""
        best = best_trials(done)[: self.section.ranked]
        if len(best) < 2:
            return ()
        found = rank_points([self.tasks[t.key] for t in best], done.wanted[0])
        return tuple(zip(best, [{}, *found], strict=True))

    def try_points(self, points: Iterable[Settings]) -> list[SweepTrial]:
        """Outcomes of points in their order; unknown ones are run."""
        tasks = [(_shown_settings(settings), self._make_task(settings)) for settings in points]
        keys = [point_key(t) for _, t in tasks]
        self.tasks |= {k: task for k, (_, task) in zip(keys, tasks, strict=True)}
        first = dict(zip(reversed(keys), reversed(tasks), strict=True))  # each once
        order = self._own_shard(list(dict.fromkeys(keys)))
        found = {k: replace(self.known[k], settings=first[k][0]) for k in order if k in self.known}
        for trial in found.values():
            self.progress(trial)
        for trial in self._run_points({k: first[k] for k in order if k not in found}):
            found[trial.key] = trial
        for k in (Counter(keys) - Counter(order)).elements():  # asked for more than once
            if k in found:
                self.progress(replace(found[k], cached=True))
        return [found[k] for k in keys if k in found]

    def _own_shard(self, keys: list[str]) -> list[str]:
        """Keys of the points of this shard; points are assigned in turn."""
        first, self.asked = self.asked, self.asked + len(keys)
        count, number = self.shard.count, self.shard.number
        return [k for i, k in enumerate(keys, first) if i % count + 1 == number]

    def _run_points(self, todo: dict[str, tuple[Settings, Task]]) -> Iterator[SweepTrial]:
        for sent, done in self.workers.run(evaluate_point, (t for _, t in todo.values())):
            outcome = poison_outcome(sent) if done is None else done
            self.store.write(outcome)
            trial = self._make_trial(todo[point_key(sent)][0], outcome)
            if trial.error is None:
                self.known[trial.key] = replace(trial, cached=True)
            self.progress(trial)
            yield trial

    def _make_task(self, settings: Settings) -> Task:
        set_: dict[str, Plain] = {}
        for paths, value in settings.items():
            set_ |= settings_of_value(paths, value)
        return make_task(self.shared, set_, self.wanted)

    def _make_trial(self, settings: Settings, outcome: Outcome) -> SweepTrial:
        """Point with the shown metrics of its outcome; the store has the complete outcome."""
        wanted = dict.fromkeys([*self.shown, *self.wanted])
        names = [n for n in wanted if n in outcome.get("values", {})]
        error = outcome.get("error")
        return SweepTrial(
            settings,
            outcome["key"],
            {n: outcome["values"][n] for n in names},
            {n: i for n in names if (i := outcome["intervals"].get(n))},
            {k: error[k] for k in ("kind", "message")} if error else None,
            varies=outcome.get("varies", True),
        )


def _shown_settings(settings: Settings) -> Settings:
    """Settings as tables show them: values of settings that vary together are one text."""
    return {
        paths: ", ".join(map(str, v)) if isinstance(v, list | tuple) else v
        for paths, v in settings.items()
    }
