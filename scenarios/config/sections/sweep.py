"""``sweep``: settings to vary, the method that chooses points, and the objectives."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Annotated, Any, Literal

from pydantic import Field, PlainValidator, ValidationInfo, model_validator

from ..metrics import parse_metric
from ..parameters import Range, RangeSection, Values, Vary, read_vary
from ..problems import FilePosition, InvalidScenarioError, Problem
from ..reading.overrides import apply_override
from ..reading.tree import TreeNode, find_node, to_dict, tree_from_value
from ..schema import Attempt, Many, Section, register

MOST = 100_000  # points of a sweep
RANKED = 10  # default number of ranked plans
BETWEEN = 0.381966  # fraction of a range at which it is checked; unlikely to be a round number
SEARCHED = 100  # default number of points of a search


@dataclass(frozen=True)
class Objective:
    """An objective: a metric to minimize or maximize.

    Parameters
    ----------
    metric : metric with statistic, such as ``iteration_time.p50``
    unit : SI unit of the metric
    sign : 1 to minimize, -1 to maximize
    """

    metric: str
    unit: str
    sign: int

    def to_dict(self) -> dict[str, str]:
        """Plain dictionary in the form of a scenario file."""
        return {"minimize" if self.sign > 0 else "maximize": self.metric}


class ObjectiveSection(Section):
    """One metric to minimize or maximize."""

    minimize: str | None = None
    """Metric to minimize: ``iteration_time.p50``, ``cost_per_million_tokens``."""
    maximize: str | None = None
    """Metric to maximize: ``tokens_per_second.p50``."""


def read_objective(data: Any, info: ValidationInfo) -> Objective:
    """Read an objective such as ``{minimize: makespan}``."""
    model = ObjectiveSection.model_validate(data, context=info.context)
    said = [(m, s) for m, s in ((model.minimize, 1), (model.maximize, -1)) if m is not None]
    if len(said) != 1:
        raise ValueError("an objective needs one metric; write it like {minimize: makespan}")
    metric, sign = said[0]
    known, name, statistic = parse_metric(metric)
    return Objective(f"{name}.{statistic}".rstrip("."), known.unit, sign)


_OBJECTIVE = PlainValidator(read_objective, json_schema_input_type=ObjectiveSection)


def _read_vary(data: Any, info: ValidationInfo) -> Vary:
    return read_vary(data, info.context)


Method = Literal["grid", "random", "sobol", "tpe", "nsga2", "plans"]


class Sweep(Section):
    """Settings to vary, the method that chooses points, and the objectives."""

    method: Method = "grid"
    """How points are chosen: every combination (``grid``), random, evenly spread (``sobol``), a
    search (``tpe``, ``nsga2``: Optuna), or every combination with each parallel plan that the
    workload allows (``plans``)."""
    points: Annotated[int, Field(ge=1, le=MOST)] | None = None
    """Number of points; by default all of a grid or of plans, else 100."""
    vary: dict[
        Annotated[str, Field(min_length=1)],
        Annotated[
            Vary, PlainValidator(_read_vary, json_schema_input_type=list[Any] | RangeSection)
        ],
    ] = Field(default_factory=dict)
    """Settings by dotted path, each with a list or ``{from, to, step | log}``. A key of several
    paths, separated by commas, sets all of them at once: to one value, or to a list of one each."""
    optimize: Many[Annotated[Objective, _OBJECTIVE]] = ()
    """Objectives; with several, the Pareto front is searched for."""
    rank: Annotated[int, Field(ge=0, le=1000)] | None = None
    """Number of best points to rank by the first objective. Each is run again with the known model
    errors. By default ten for plans, else none."""

    @model_validator(mode="after")
    def _check_points(self) -> Sweep:
        """Check that a grid has only lists or stepped ranges, and not too many points."""
        if not self.vary and self.method != "plans":
            raise ValueError("nothing varies; list settings under vary, or write method: plans")
        if self.method not in ("grid", "plans"):
            return self
        for path, vary in self.vary.items():
            if isinstance(vary, Range):
                raise ValueError(
                    f"{'a grid' if self.method == 'grid' else self.method} needs single values "
                    f"of '{path}', not a range; write a step, or log: 5 for five values"
                )
        if self.method == "grid" and self.size > (self.points or MOST):
            raise ValueError(
                f"the grid has {self.size} points, more than {self.points or MOST}; remove values, "
                "or write method: random or sobol"
            )
        return self

    @property
    def ranked(self) -> int:
        """Number of best points to rank."""
        return self.rank if self.rank is not None else RANKED if self.method == "plans" else 0

    @property
    def size(self) -> int:
        """Number of points of the grid; 0 if a setting has a continuous range."""
        size = 1
        for vary in self.vary.values():
            size *= len(vary.values) if isinstance(vary, Values) else 0
        return size

    @property
    def wanted(self) -> int:
        """Number of points to run."""
        return self.size if self.method == "grid" else self.points or SEARCHED


def split_paths(paths: str) -> tuple[str, ...]:
    """Dotted paths in one comma-separated key of ``vary``.

    >>> split_paths("cluster.nodes, workload.scale_to.parallel.data")
    ('cluster.nodes', 'workload.scale_to.parallel.data')
    """
    return tuple(p.strip() for p in paths.split(","))


def settings_of_value(paths: str, value: Any) -> dict[str, Any]:
    """Value of each setting path of one ``vary`` key: a common value, or one per path from a list.

    Raises
    ------
    ValueError
        The list has more or fewer values than there are paths.

    Examples
    --------
    >>> settings_of_value("cluster.nodes, workload.scale_to.parallel.data", 8)
    {'cluster.nodes': 8, 'workload.scale_to.parallel.data': 8}
    >>> paths = "cluster.node.nic.bandwidth, cost.items.1.each"
    >>> settings_of_value(paths, ["25 Gb/s", "0.06 USD/hour"])
    {'cluster.node.nic.bandwidth': '25 Gb/s', 'cost.items.1.each': '0.06 USD/hour'}
    """
    names = split_paths(paths)
    if len(names) == 1 or not isinstance(value, list | tuple):
        return dict.fromkeys(names, value)
    if len(value) != len(names):
        raise ValueError(
            f"{list(value)} has {len(value)} values for {len(names)} settings; write one for each"
        )
    return dict(zip(names, value, strict=True))


def _sweep_value_problems(tree: TreeNode, check_tree: Attempt) -> Iterator[Problem]:
    """Problems of values that a setting cannot take, and of settings that do not exist."""
    entries = _vary_by_paths(tree)
    for paths, (vary, entry) in entries.items():
        found: list[Problem] = []
        for value, written in _values_as_written(vary, entry):
            told = list(_try_value(tree, check_tree, paths, value, written))
            doubted = [p for p in told if p.severity == "warning"]
            if doubted and (
                written is entry or _may_be_cured(tree, check_tree, paths, value, written)
            ):
                told = [p for p in told if p not in doubted]
            found += told
        unknown = [
            p for p in found if p.kind == "unknown-key" and p.spot.path == _paths_text(paths)
        ]
        yield from ([replace(unknown[0], spot=entry.label)] if unknown else found)


def _vary_by_paths(tree: TreeNode) -> dict[str, tuple[Vary, TreeNode]]:
    """Varied values and their tree node, by key of ``vary``; without entries that are invalid."""
    entries = find_node(tree, ("sweep", "vary"))
    found = {}
    for paths, entry in entries.mapping.items() if entries else ():
        with suppress(ValueError):
            found[paths] = read_vary(to_dict(entry)), entry
    return found


def _may_be_cured(
    tree: TreeNode, check_tree: Attempt, paths: str, value: Any, written: TreeNode
) -> bool:
    """True if a warning about a value disappears with another value of another setting."""
    for others, (vary, entry) in _vary_by_paths(tree).items():
        for beside in map(vary.value_at, (0.0, BETWEEN, 1.0) if others != paths else ()):
            try:
                changed = _with_value(tree, others, beside, entry.spot)
            except (ValueError, InvalidScenarioError):
                continue  # reported as another problem
            if not any(
                p.severity == "warning"
                for p in _try_value(changed, check_tree, paths, value, written)
            ):
                return True
    return False


def _values_as_written(vary: Vary, entry: TreeNode) -> Iterator[tuple[Any, TreeNode]]:
    """Each value with its tree node; for a range both ends and a value between them."""
    if entry.items:
        yield from zip((to_dict(n) for n in entry.items), entry.items, strict=True)
    else:
        yield vary.value_at(0.0), entry.mapping.get("from", entry)
        yield vary.value_at(1.0), entry.mapping.get("to", entry)
        yield vary.value_at(BETWEEN), entry


def _paths_text(paths: str) -> str:
    return f"sweep.vary.{paths}"


def _with_value(tree: TreeNode, paths: str, value: Any, spot: FilePosition) -> TreeNode:
    """Tree with one value of one key of ``vary`` applied.

    Raises
    ------
    ValueError
        The list has more or fewer values than there are paths; or ``InvalidScenarioError``.
    """
    for path, one in settings_of_value(paths, value).items():
        tree = apply_override(tree, path, tree_from_value(one, spot, "sweep"))
    return tree


def _try_value(
    tree: TreeNode, check_tree: Attempt, paths: str, value: Any, written: TreeNode
) -> Iterator[Problem]:
    """Problems and warnings that appear only with one value of one key of ``vary``."""
    spot = replace(written.spot, path=_paths_text(paths))
    try:
        tree = _with_value(tree, paths, value, spot)
    except InvalidScenarioError as error:
        yield from error.problems
        return
    except ValueError as error:
        yield Problem("vary", str(error), spot)
        return
    here = spot.file, spot.line, spot.column
    yield from (p for p in check_tree(tree) if (p.spot.file, p.spot.line, p.spot.column) == here)


register("sweep", Sweep, None, broken=_sweep_value_problems)
