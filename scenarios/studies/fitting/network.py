"""Fit of a communication library and fabric to logs of collectives."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ....models.calibration.calibrate import Calibration, calibrate
from ....models.calibration.held_out_errors import HeldOutErrors
from ....models.calibration.held_out_rows import CalibrationRows
from ....models.calibration.identifiability import Model, Parameter
from ....models.calibration.model_selection import GROUPS_A_PARAMETER, cross_validated_errors
from ....models.calibration.parameter_search import CLOSE
from ....models.network.collective.library_times import LibraryTimes
from ....sim.errors import ScenarioError
from ....sim.facts.ops import Kind, Ops
from ....sim.facts.signature import parse_signature
from ....sim.facts.system import System
from ....sim.setting_groups import flatten_settings, unflatten_settings
from ...config.loader import load
from ..building.system import build_system
from .collective_logs import CollectiveRow
from .curves import require_parameters

Floats = NDArray[np.float64]
NETWORK_KIND = "network"
PAIR = 2  # launch and efficiency, which have a meaning only together
DRAWS = 8  # refits; each asks a model that is not smooth
LEVEL = 0.9
GUESSES = {
    "simple.launch": 2e-5, "simple.efficiency": 0.7, "ll.launch": 5e-6, "ll.efficiency": 0.3,
    "ll128.launch": 1.5e-5, "ll128.efficiency": 0.6,
    "simple.network.step": 2e-5, "simple.network.efficiency": 0.8,
    "ll.network.step": 5e-6, "ll.network.efficiency": 0.3, "network.rendezvous": 5e-6,
    "buffers.segment": 4e6,
    "network.pace": 4e-5, "network.copy_rate": 2e10,
    "in_switch.launch": 1.5e-5, "in_switch.round": 4e-6, "in_switch.efficiency": 0.7,
    "sends.launch": 1e-5, "sends.efficiency": 0.6, "sends.ll.launch": 6e-6, "sends.ll.rate": 6e9,
    "sends.copying": 0.5, "sends.own_part": 0.2, "sends.lateness": 1e-6,
    "simple.step": 3e-6, "ll.step": 1e-6,
}  # fmt: skip
WITHIN = ("simple.launch", "simple.efficiency", "ll.launch", "ll.efficiency")
ACROSS = (
    "simple.network.step",
    "simple.network.efficiency",
    "ll.network.step",
    "ll.network.efficiency",
)
SENDS = ("sends.launch", "sends.efficiency", "sends.ll.launch", "sends.ll.rate")


@dataclass(frozen=True)
class NetworkFit:
    """Fit of a communication library to logs.

    Parameters
    ----------
    found : fit to the logs, without the largest number of machines if that is held out
    more_nodes : errors on the held-out largest number of machines; None if the logs have fewer than
        three numbers of machines
    factor : cross-validated error factor f: 90 % of times lie between prediction / f and prediction
        x f
    inside : fraction of times that lie within ``factor``: for held-out sizes, and for
        ``more_nodes``
    left : parameters that the logs would determine if they had more sizes; they keep their values
    """

    found: Calibration
    more_nodes: HeldOutErrors | None
    factor: float
    inside: tuple[float, float | None]
    left: tuple[str, ...] = ()

    @property
    def entry_factor(self) -> float:
        """Error factor for the catalog entry, defined as ``factor`` is.

        It also covers 90 % of times on the held-out largest number of machines, if there is one.
        """
        if self.more_nodes is None:
            return self.factor
        return max(self.factor, _factor_of_most(np.log1p(self.more_nodes.errors)))


@dataclass(frozen=True)
class MeasuredFabric:
    """Collectives measured on the machine of a scenario.

    Parameters
    ----------
    rows : measured collectives, from logs of nccl-tests
    machine : scenario whose cluster they were measured on
    """

    rows: Sequence[CollectiveRow]
    machine: Path
    clock: str = "nccl-tests"

    @property
    def where(self) -> str:
        """Provenance of the measured collectives in one line, for catalog entries."""
        groups = dict.fromkeys((r.collective, r.ranks, r.nodes) for r in self.rows)
        told = ", ".join(f"{c} of {n} on {m}" for c, n, m in groups)
        return f"logs of {told} machines, {len(self.rows)} rows; on {self.machine.name}"

    @cached_property
    def system(self) -> System:
        """System of the machine.

        Raises
        ------
        ScenarioError
            It has fewer machines, or GPUs per machine, than the logs need.
        """
        system = build_system(load(self.machine))
        for row in self.rows:
            self._first_ranks(row.ranks, row.nodes, system)
        return system

    def _first_ranks(self, ranks: int, nodes: int, system: System) -> list[int]:
        """Ranks on the first ``nodes`` machines, the same number on each."""
        by_node: dict[str, list[int]] = {}
        for rank, gpu in enumerate(system.numbers):
            by_node.setdefault(system.node_of(gpu), []).append(rank)
        width, machines = ranks // nodes, list(by_node.values())[:nodes]
        if len(machines) < nodes or any(len(m) < width for m in machines):
            raise ScenarioError(
                f"--machine {self.machine}: a log needs {width} GPUs on each of {nodes} machines, "
                "but the cluster has fewer; raise 'nodes', or the number of GPUs"
            )
        return [rank for machine in machines for rank in machine[:width]]

    @cached_property
    def table(self) -> tuple[Ops, Floats]:
        """Ops table and measured seconds of the rows; signatures have ranks and machines."""
        texts = [f"collective:{r.collective} ranks={r.ranks} nodes={r.nodes} uint8[{r.size:.0f}]"
                 for r in self.rows]  # fmt: skip
        known = list(dict.fromkeys(texts))
        number = {text: i for i, text in enumerate(known)}
        ops = Ops.of(
            kind=Kind.COLLECTIVE,
            bytes=[r.size for r in self.rows],
            signature=[number[t] for t in texts],
            signatures=tuple(known),
        )
        return ops, np.array([r.seconds for r in self.rows])

    def model(self, fixed: Mapping[str, Any]) -> Model:
        """Function that predicts the time of each row in s from the fitted parameters.

        Parameters
        ----------
        fixed : parameters that are not fitted, by name
        """
        times = LibraryTimes(self.system, fixed)

        def seconds(changed: dict[str, float], ops: Ops) -> Floats:
            told = np.array([_group_of_signature(t) for t in ops.signatures], dtype=object)
            groups = [tuple(told[s]) for s in ops.signature.tolist()]
            found = np.empty(len(ops))
            for group in dict.fromkeys(groups):
                mine = np.array([g == group for g in groups])
                name, ranks, nodes = group
                chosen = self._first_ranks(ranks, nodes, self.system)
                found[mine] = times.seconds(changed, name, chosen, ops.bytes[mine])
            return found

        return seconds


def _group_of_signature(text: str) -> tuple[str, int, int]:
    """Collective, number of ranks and number of machines of a row.

    >>> _group_of_signature("collective:all-reduce ranks=8 nodes=2 uint8[1024]")
    ('all-reduce', 8, 2)
    """
    name, ranks, nodes = parse_signature(text).name.split()
    return name, int(ranks.partition("=")[2]), int(nodes.partition("=")[2])


def fit_network(
    data: MeasuredFabric, settings: Mapping[str, Any], names: Sequence[str] = ()
) -> tuple[NetworkFit, dict[str, Any]]:
    """Fit a communication library to logs; also returns the fixed parameters.

    Sizes are held out by hash. If logs have three or more numbers of machines, the largest is held
    out completely.

    Parameters
    ----------
    settings : settings of the library before the fit, in SI
    names : parameters to fit; by default those that the logs can determine

    Raises
    ------
    ScenarioError
        A parameter is unknown, or there are too few rows.
    """
    require_parameters(NETWORK_KIND, names, GUESSES, "library")
    (ops, seconds), _ = data.table, data.system
    machines = sorted({r.nodes for r in data.rows})
    largest = np.array([len(machines) > 2 and r.nodes == machines[-1] for r in data.rows])
    groups = tuple(f"{r.collective} {r.ranks} {r.size:.0f}" for r in data.rows)
    every = CalibrationRows(ops, seconds, groups)
    rows, beyond = every.take(np.flatnonzero(~largest)), every.take(np.flatnonzero(largest))
    fitted = rows.rows_to_fit()
    room = len(set(fitted.groups)) // GROUPS_A_PARAMETER
    likely = _identifiable_parameters(data.rows)
    chosen = list(names) or likely[: max(room // PAIR * PAIR, PAIR)]
    if room < len(chosen):
        raise ScenarioError(
            f"fit {NETWORK_KIND}: {len(chosen)} parameters need {GROUPS_A_PARAMETER * len(chosen)} "
            f"sizes to fit, but the logs have {len(set(fitted.groups))} of {len(set(groups))} (the "
            "others are held out); measure more sizes, or fit fewer parameters (--parameter)"
        )
    known = flatten_settings(settings)
    still = unflatten_settings({k: v for k, v in known.items() if k not in chosen})
    parameters = [Parameter(n, float(known.get(n) or 0.0), GUESSES[n]) for n in chosen]
    start = [Parameter(p.name, p.start, p.guess) for p in parameters]
    model = data.model(still)
    found = calibrate(model, start, rows, draws=DRAWS)
    factor = _factor_of_most(cross_validated_errors(model, start, fitted, search=CLOSE))
    judged = None
    if len(beyond.groups):
        judged = HeldOutErrors.of(model(found.values, beyond.ops), beyond)
    inside = (
        _share_inside(found.judged, factor),
        None if judged is None else _share_inside(judged, factor),
    )
    left = () if names else tuple(likely[len(chosen) :])
    return NetworkFit(found, judged, factor, inside, left), still


def _identifiable_parameters(rows: Sequence[CollectiveRow]) -> list[str]:
    """Parameters that the logs can determine, those of most rows first."""
    sends = any(r.collective == "all-to-all" for r in rows)
    others = any(r.collective != "all-to-all" for r in rows)
    across = any(r.nodes > 1 for r in rows)
    kinds = (WITHIN if others else (), SENDS if sends else (), ACROSS if across else ())
    return [*(n for kind in kinds for n in kind[:2]), *(n for kind in kinds for n in kind[2:])]


def _factor_of_most(wrong: Floats) -> float:
    """Error factor f that covers 90 % of logarithmic errors: time between prediction / f and x f.

    >>> round(_factor_of_most(np.log(np.linspace(1.0, 1.3, 31))), 3)
    1.28
    """
    size, n = np.sort(np.abs(wrong)), len(wrong)
    return float(np.exp(size[min(int(np.ceil(LEVEL * (n + 1))) - 1, n - 1)]))


def _share_inside(judged: HeldOutErrors, factor: float) -> float:
    return float(np.mean(np.abs(np.log1p(judged.errors)) <= np.log(factor)))


def network_lines(fit: NetworkFit, rows: Sequence[CollectiveRow]) -> list[str]:
    """Report lines other than those of parameters: intervals, and errors for more machines."""
    inside, there = fit.inside
    lines = [f"90 % interval of a time: within a factor of {fit.factor:.3g} of the prediction "
             f"(cross-validated); {inside:.0%} of the held-out sizes are inside"]  # fmt: skip
    if fit.left:
        lines.append(
            f"not fitted, because each parameter needs {GROUPS_A_PARAMETER} sizes: "
            f"{', '.join(fit.left)}; measure more sizes, or choose them with --parameter"
        )
    if fit.more_nodes is not None and there is not None:
        size = np.abs(fit.more_nodes.errors)
        lines.append(
            f"all logs of {max(r.nodes for r in rows)} machines held out: median "
            f"{np.median(size):.1%}, mean {size.mean():.1%} on {len(size)} rows; {there:.0%} inside"
        )
    return lines
