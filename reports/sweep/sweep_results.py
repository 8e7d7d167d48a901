"""Access to a sweep's summary: goals, Pareto front, settings of points."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

Summary = Mapping[str, Any]
Found = Mapping[str, Any]  # a point


def sweep_goals(summary: Summary) -> list[tuple[str, str, str]]:
    """Goals of the sweep as (direction, metric, unit)."""
    return [(way, o[way], o["unit"]) for o in summary["optimize"] for way in o if way != "unit"]


def front_points(summary: Summary) -> list[Found]:
    """Points of the Pareto front, sorted by the first metric, best first."""
    way, metric, _ = sweep_goals(summary)[0]
    front = [p for p in summary["points"] if p.get("front")]
    return sorted(front, key=lambda p: p["values"][metric] * (1 if way == "minimize" else -1))


def replicas_can_differ(summary: Summary) -> bool:
    """True if replicas of the best points can differ, so that they can give an interval."""
    return any(point.get("varies", True) for point in front_points(summary))


def settings_text(point: Found, summary: Summary, compared_to: Found | None = None) -> str:
    """Text of a point's settings; if several take the same value, only the first is named.

    Parameters
    ----------
    point : the point
    summary : the sweep's summary
    compared_to : another point; settings that both share are left out
    """
    same = compared_to["set"] if compared_to else {}
    return ", ".join(
        setting_text(paths, value, summary["vary"])
        for paths, value in point["set"].items()
        if same.get(paths) != value
    )


def setting_text(paths: str, value: Any, vary: Mapping[str, Any]) -> str:
    """Text of one setting, or of several that are varied together, each with its own value.

    >>> setting_text("a.tensor, a.pipeline", "4, 2", {"a.tensor, a.pipeline": [[4, 2], [2, 4]]})
    'tensor = 4, pipeline = 2'
    """
    values = _split_values(value, vary[paths]) or [value_text(value)]
    names = (unique_suffix(path.strip(), vary) for path in paths.split(","))
    return ", ".join(f"{name} = {v}" for name, v in zip(names, values, strict=False))


def value_text(value: Any) -> str:
    """Value of a setting, written as in a scenario file.

    >>> value_text(True), value_text(4)
    ('true', '4')
    """
    return str(value).lower() if isinstance(value, bool) else str(value)


def differing_settings(points: Sequence[Found], vary: Mapping[str, Any]) -> list[str]:
    """Settings whose value differs between the given points.

    >>> differing_settings([{"set": {"a": 1, "b": 2}}, {"set": {"a": 1, "b": 3}}], ["a", "b"])
    ['b']
    """
    return [path for path in vary if len({value_text(p["set"].get(path)) for p in points}) > 1]


def setting_name(paths: str, vary: Mapping[str, Any]) -> str:
    """Short name of the settings in one key of ``vary``; if they share a value, the first only.

    >>> setting_name("a.nodes, b.data", {"a.nodes, b.data": [2, 4]})
    'nodes'
    >>> setting_name("a.tensor, a.pipeline", {"a.tensor, a.pipeline": [[4, 2], [2, 4]]})
    'tensor, pipeline'
    """
    names = [unique_suffix(path.strip(), vary) for path in paths.split(",")]
    tried = vary[paths]
    several = isinstance(tried, list) and any(isinstance(v, list) for v in tried)
    return ", ".join(names) if several else names[0]


def first_value(value: Any, tried_values: Any) -> Any:
    """Value of the first setting, if several are varied together.

    >>> first_value("1 Gb/s, 2 USD/hour", [["1 Gb/s", "2 USD/hour"]]), first_value(8, [4, 8])
    ('1 Gb/s', 8)
    """
    return (_split_values(value, tried_values) or [value])[0]


def unique_suffix(paths: str, others: Any) -> str:
    """Shortest suffix of a setting's path that no other path has.

    >>> unique_suffix("cluster.node.nic.bandwidth", ["cluster.node.nic.bandwidth", "cluster.nodes"])
    'bandwidth'
    """
    every = [path.strip() for key in others for path in key.split(",")]
    words = paths.partition(",")[0].split(".")
    for count in range(1, len(words)):
        end = ".".join(words[-count:])
        if sum(f".{path}".endswith(f".{end}") for path in every) == 1:
            return end
    return paths


def other_settings_key(point: Found, setting: str) -> str:
    """Key that is equal for points whose settings differ in the given setting at most."""
    return repr([(k, v) for k, v in point["set"].items() if k != setting])


def set_options(settings: Mapping[str, Any], vary: Mapping[str, Any]) -> list[str]:
    """``PATH=VALUE`` texts for ``--set``, one per setting of a point."""
    found = []
    for paths, shown in settings.items():
        names = [path.strip() for path in paths.split(",")]
        values = _split_values(shown, vary.get(paths)) or [value_text(shown)] * len(names)
        found += [f"{n}={v}" for n, v in zip(names, values, strict=True)]
    return found


def _split_values(shown: Any, tried_values: Any) -> list[Any] | None:
    """Values of settings varied together, split from their text; None for a single value.

    >>> _split_values("1 Gb/s, 2 USD/hour", [["1 Gb/s", "2 USD/hour"], ["3 Gb/s", "4 USD/hour"]])
    ['1 Gb/s', '2 USD/hour']
    """
    lists = (
        [v for v in tried_values if isinstance(v, list)] if isinstance(tried_values, list) else []
    )
    return next((v for v in lists if ", ".join(map(str, v)) == shown), None)
