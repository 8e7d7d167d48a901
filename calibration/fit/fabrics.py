"""Fit other collectives than ``collectives.py``: in-switch, all-to-all, and between machines.

    python -m foretrace.calibration.fit.fabrics [--score]

``rows/collective_rows.py`` defines the rows to fit and to judge; judging rows are read only with
``--score``. Constants not named below are those of the catalog (2 and 4 GPUs of other machines),
without the host's part.
"""

from __future__ import annotations

import csv
import sys
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

import numpy as np
from foretrace.models.calibration.parameter_search import CLOSE, PredictionErrors, fit_parameters
from foretrace.models.network.collective.library_times import LibraryTimes
from foretrace.models.network.part.link import Link
from foretrace.models.network.part.nic import Nic
from foretrace.models.network.topology.topology import NodeSpec, cluster
from foretrace.scenarios.studies.fitting.catalog_entry import settings_before_fit
from foretrace.sim.facts.splits import LOW_LATENCY, all_to_all_name
from foretrace.sim.setting_groups import merge_settings, unflatten_settings

from ..rows.collective_rows import MIB, Rows, a100_dgx, all_to_all, alps, h100_dgx, other_all_to_all
from ..rows.nccl_rows import DATA
from .collectives import LISTED, best_offset

NVLINK = {"nccl-nvlink3": 300e9, "nccl-nvlink4": 450e9}
US = 1e-6


def machine(
    library: str, nodes: int, gpus: int, nics: int = 0, latency: float = 0.7e-6, rate: float = 25e9
):
    """System of nodes with GPUs on NVLink, and NICs (200 Gb/s by default)."""
    link = Link(bandwidth=NVLINK[library], latency=0.0)
    nic = Nic(bandwidth=rate, latency=latency) if nics else None
    return cluster(nodes, NodeSpec(gpus=gpus, gpu_link=link, nics=nics, nic=nic))


def catalog(library: str, changed: Mapping[str, Any] = MappingProxyType({})) -> dict[str, Any]:
    """Settings of a catalog entry, with some changed, by dotted name."""
    return merge_settings(
        settings_before_fit("library", library, [], []).settings, unflatten_settings(changed)
    )


Named = str | dict[int, str]
"""A collective, or one for each number of members."""


def predicted(times: LibraryTimes, changed: dict[str, float], collective: Named, rows: Rows):
    """Predicted time of rows in s, group by group."""
    seconds = np.zeros(len(rows.size))
    for n in np.unique(rows.members).tolist():
        mine = rows.members == n
        name = collective if isinstance(collective, str) else collective[n]
        seconds[mine] = times.seconds(changed, name, range(n), rows.size[mine])
    return seconds


def fitted(times: LibraryTimes, start: dict[str, float], collective: Named, rows: Rows, also=dict):
    """Best values of the constants in ``start``, and of constants derived from them."""
    names = list(start)

    def predict(values):
        own = also(dict(zip(names, values.tolist(), strict=True)))
        return predicted(times, own, collective, rows)

    found = fit_parameters(predict, list(start.values()), rows.seconds, CLOSE)
    return also(dict(zip(names, found.tolist(), strict=True)))


def print_errors(
    name: str, guess: np.ndarray, seconds: np.ndarray, rows: np.ndarray | None = None
) -> None:
    """Print the errors of a prediction in one line."""
    mine = np.ones(len(seconds), bool) if rows is None else rows
    if mine.any():
        print(f"    {name:40s} {PredictionErrors.of(guess[mine], seconds[mine])}")


def constants(found: dict[str, float]) -> None:
    """Print the fitted constants in one line."""
    text = ", ".join(
        f"{k} {v / US:.3g} us" if v < 0.01 and "efficiency" not in k else f"{k} {v:.3g}"
        for k, v in found.items()
    )
    print(f"  {text}")


SWITCH_START = {
    "ll128.launch": 1 * US,
    "ll128.efficiency": 0.7,
    "in_switch.launch": 17 * US,
    "in_switch.round": 4 * US,
}
FULL_ROUND = 8 * 16 * 2**17 * 9 / 8 / NVLINK["nccl-nvlink4"]
"""Seconds of the bytes of a round of the largest chunks at line rate, of eight GPUs."""
IN_SWITCH = 0.680
"""Of the line rate, that NCCL counts on with all costs of rounds in it (``collectives.py``)."""


def with_rate(found: dict[str, float]) -> dict[str, float]:
    """Constants with the efficiency at which the largest rounds reach NCCL's assumed rate."""
    share = 1 / (1 / IN_SWITCH - found["in_switch.round"] / FULL_ROUND)
    return {**found, "in_switch.efficiency": share}


def local_scatter(rows: Rows) -> np.ndarray:
    """Relative distance of each row from the median of the eleven sizes around it, shape (n,)."""
    near = [np.median(rows.seconds[max(0, i - 5) : i + 6]) for i in range(len(rows.size))]
    return np.abs(rows.seconds / np.array(near) - 1)


def in_switch(score: bool) -> None:
    """Fit and judge in-switch reduction on eight of eight H100.

    It was scored twice: with the switch rate fitted too, and as here, so that sizes beyond those of
    the fit reach the rate that NCCL assumes.
    """
    print("all-reduce of 8 H100 in the switch (vidur h100_dgx)")
    rows, full, below, known = h100_dgx()
    settings = catalog("nccl-nvlink4", {"ll.launch": None, "in_switch.channels": 16})
    times = LibraryTimes(machine("nccl-nvlink4", 1, 8), settings)
    chooses = known & ~full & ~below
    for name, listed in (("20 sizes", full), ("20 sizes, none in the top decade", below)):
        found = fitted(times, SWITCH_START, "all-reduce", rows.take(listed), with_rate)
        print(f"  fitted on {name} ({listed.sum()})")
        constants(found)
        guess = predicted(times, found, "all-reduce", rows)
        for what, mine in (
            ("chooses the form", chooses),
            *((("judges", ~known),) if score else ()),
        ):
            large, top = rows.size >= MIB, rows.size > rows.size[-1] / 10
            print_errors(f"{what}, from 1 MiB on", guess, rows.seconds, mine & large)
            print_errors(f"{what}, top decade", guess, rows.seconds, mine & top)
            print_errors(f"{what}, below 1 MiB", guess, rows.seconds, mine & ~large)
            scatter = local_scatter(rows)[mine & ~large].mean()
            print(f"    {what}, below 1 MiB, local scatter {scatter:.1%}")


SENDS_START = {
    "sends.launch": 13 * US,
    "sends.efficiency": 0.64,
    "sends.ll.launch": 6 * US,
    "sends.ll.rate": 6e9,
    "sends.own_part": 0.2,
    "sends.copying": 0.5,
    "sends.lateness": 1 * US,
}


def grouped_sends(score: bool) -> None:
    """Fit all-to-all within a machine on 2 and 4 GPUs; judge on 8, and with the other GPU's
    constants.
    """
    for library, gpus in (
        ("nccl-nvlink3", ("a100_sxm",)),
        ("nccl-nvlink4", ("h100_sxm", "h200_sxm")),
    ):
        print(f"all-to-all, {library}")
        data = {gpu: all_to_all(gpu) for gpu in gpus}
        own = Rows(*map(np.concatenate, zip(*(d[0] for d in data.values()), strict=True)))
        settings = catalog(library, {"algorithms": "grouped", "sends.piece": 16.0 * MIB})
        times = LibraryTimes(machine(library, 1, 8), settings)
        found = fitted(times, SENDS_START, "all-to-all", own)
        constants(found)
        print_errors("own rows", predicted(times, found, "all-to-all", own), own.seconds)
        print_errors("sizes left out", left_out(times, own), own.seconds)
        if score:
            for gpu, (_, rows) in data.items():
                guess = predicted(times, found, "all-to-all", rows)
                print_errors(
                    f"{gpu}, 8 GPUs, up to 16 MiB", guess, rows.seconds, rows.size <= 16 * MIB
                )
                print_errors(f"{gpu}, 8 GPUs, above", guess, rows.seconds, rows.size > 16 * MIB)
            if library == "nccl-nvlink3":
                on_another_machine(predicted(times, found, "all-to-all", other_all_to_all()))


def left_out(times: LibraryTimes, own: Rows) -> np.ndarray:
    """Predicted time of each row in s, by a fit to the other four of five parts of the sizes."""
    fold = np.unique(own.size, return_inverse=True)[1] % 5
    guess = np.zeros(len(own.size))
    for k in range(5):
        found = fitted(times, SENDS_START, "all-to-all", own.take(fold != k))
        guess[fold == k] = predicted(times, found, "all-to-all", own.take(fold == k))
    return guess


def on_another_machine(guess: np.ndarray) -> None:
    """Print errors on another machine with eight A100 and longer calls: blind, and with one
    constant.
    """
    rows = other_all_to_all()
    listed, small = np.isin(rows.size, LISTED), rows.size <= 16 * MIB
    more = best_offset(guess[listed], rows.seconds[listed])
    for what, own in (("blind", 0.0), (f"{more / US:+.1f} us fitted", more)):
        print_errors(
            f"another 8 A100, {what}, up to 16 MiB", guess + own, rows.seconds, small & ~listed
        )
        print_errors(f"another 8 A100, {what}, above", guess + own, rows.seconds, ~small)


NODES_START = {
    "simple.network.step": 100 * US, "simple.network.efficiency": 0.06,
    "ll128.network.step": 60 * US, "ll128.network.efficiency": 0.03,
    "ll.network.step": 20 * US, "ll.network.efficiency": 0.01,
}  # fmt: skip


def two_nodes(score: bool) -> None:
    """Fit and judge collectives on sixteen A100 in two machines."""
    print("all-reduce of 2 x 8 A100 (vidur a100_dgx)")
    own, rest = a100_dgx()
    for choice in ("quickest", "nccl"):
        settings = catalog("nccl-nvlink3", {"choice": choice})
        times = LibraryTimes(machine("nccl-nvlink3", 2, 8, nics=8), settings)
        found = fitted(times, NODES_START, "all-reduce", own)
        print(f"  {choice}")
        constants(found)
        print_errors("own rows", predicted(times, found, "all-reduce", own), own.seconds)
        if score:
            print_errors("judges", predicted(times, found, "all-reduce", rest), rest.seconds)


def by_steps(own: Rows, rows: Rows) -> np.ndarray:
    """Predicted time of rings in s, from the step time of 16 GPUs with equal parts."""
    sixteen = own.take(own.members == 16)
    part = rows.size / rows.members
    step = np.interp(part, sixteen.size / 16, sixteen.seconds / 30)
    return step * 2 * (rows.members - 1)


def across(score: bool) -> None:
    """Fit and judge collectives on 4 to 32 GH200 with Slingshot.

    The host copy of parts up to 1 MiB follows from the fitted rows of 16 GPUs, and from runs of the
    same authors with ``FI_CXI_SAFE_DEVMEM_COPY_THRESHOLD``, which only affects those parts of
    rings.
    """
    print("all-reduce across nodes of 4 GH200 (alps)")
    own, rest = alps()
    if score:
        print_errors(
            "steps of 16 GPUs, from 32 MiB on",
            by_steps(own, rest),
            rest.seconds,
            rest.size >= 2**25,
        )
    start = {
        "simple.launch": 20 * US, "simple.efficiency": 0.75,
        "ll.launch": 6 * US, "ll.efficiency": 0.3,
        "simple.network.step": 40 * US, "simple.network.efficiency": 0.9,
        "ll.network.step": 6 * US, "ll.network.efficiency": 0.015, "buffers.segment": 4.0 * MIB,
        "network.rendezvous": 5 * US, "network.pace": 40 * US, "network.copy_rate": 20e9,
    }  # fmt: skip
    for choice in ("quickest", "nccl"):
        settings = catalog(
            "nccl-nvlink4",
            {
                "choice": choice,
                "ll128.launch": None,
                "in_switch.efficiency": None,
                "network.eager_limit": 2048.0,
                "network.copied": 1.0 * MIB,
            },
        )
        times = LibraryTimes(machine("nccl-nvlink4", 8, 4, nics=4, latency=1.5e-6), settings)
        found = fitted(times, start, "all-reduce", own)
        print(f"  {choice}")
        constants(found)
        for rows, what in ((own, "own"), *(((rest, "judges"),) if score else ())):
            guess = predicted(times, found, "all-reduce", rows)
            for n in np.unique(rows.members).tolist():
                mine = rows.members == n
                small, middle, large = rows.size < 2**20, rows.size <= 2**25, rows.size >= 2**25
                print_errors(f"{what}, {n} GPUs, below 1 MiB", guess, rows.seconds, mine & small)
                print_errors(
                    f"{what}, {n} GPUs, 1 to 32 MiB", guess, rows.seconds, mine & middle & ~small
                )
                print_errors(f"{what}, {n} GPUs, from 32 MiB on", guess, rows.seconds, mine & large)
                if "-v" in sys.argv:
                    for s, g, t in zip(
                        rows.size[mine], guess[mine], rows.seconds[mine], strict=True
                    ):
                        print(
                            f"        {int(s):>12d} {g / US:10.1f} {t / US:10.1f} {g / t - 1:+.0%}"
                        )


def other_generation(score: bool) -> None:
    """Judge all-to-all of 8 GPUs with constants of the other generation, and own links."""
    if not score:
        return
    print("all-to-all of 8 GPUs by another generation's constants")
    pairs = (("nccl-nvlink3", "nccl-nvlink4", ("h100_sxm", "h200_sxm")),
             ("nccl-nvlink4", "nccl-nvlink3", ("a100_sxm",)))  # fmt: skip
    for told_by, library, gpus in pairs:
        settings = catalog(told_by, {"algorithms": "grouped"})
        times = LibraryTimes(machine(library, 1, 8), settings)
        for gpu in gpus:
            _, rows = all_to_all(gpu)
            guess = predicted(times, {}, "all-to-all", rows)
            small = rows.size <= 16 * MIB
            print_errors(f"{gpu} by {told_by}, up to 16 MiB", guess, rows.seconds, small)
            print_errors(f"{gpu} by {told_by}, above", guess, rows.seconds, ~small)


TOKEN = 128 * 8 * 7168.0
"""B that a GPU sends: 128 tokens to 8 experts each, hidden size 7168, a byte each (DeepEP)."""


EXPERT_WIDTH = {"dispatch": 1, "combine": 2}
EXPERTS_START = {"sends.low_latency.launch": 30 * US, "sends.low_latency.efficiency": 0.9}


def expert_rows(op: str) -> Rows:
    """Times of DeepEP on several machines with eight H800."""
    with open(DATA / "ep-alltoall" / "deepep_v1_h800.csv") as lines:
        found = [r for r in csv.DictReader(lines) if r["kind"] == "lowlat" and int(r["ep"]) > 8]
    ep, us = np.array([(int(r["ep"]), float(r["latency_us"])) for r in found if r["op"] == op]).T
    members, size = ep.astype(int), np.full(len(ep), EXPERT_WIDTH[op] * TOKEN)
    return Rows(members, members // 8, size, us * US)


def expert_times() -> LibraryTimes:
    """Times of sends on 32 machines with eight GPUs and NICs of 400 Gb/s."""
    settings = catalog("nccl-nvlink4", {"algorithms": "grouped", "sends.ll.launch": None})
    return LibraryTimes(machine("nccl-nvlink4", 32, 8, nics=8, rate=50e9), settings)


def experts(score: bool) -> None:
    """Fit DeepEP's low-latency kernels on 16 and 64 GPUs; judge on 32 to 256 (D9).

    The model is an all-to-all in which each GPU writes to each other one, and bytes within a
    machine do not cross its NICs. Dispatch and combine share a start-up time and a fraction of the
    NIC rate. The public table is short, and all of it had been read before. It does not state the
    token distribution: equal parts are assumed, and parts as they result if 8 of 256 experts are
    drawn for each of 128 tokens.
    """
    print("experts, low-latency (deepep_v1_h800)")
    each = {op: expert_rows(op) for op in EXPERT_WIDTH}
    rows = Rows(*(np.concatenate(column) for column in zip(*each.values(), strict=True)))
    known, times = np.isin(rows.members, (16, 64)), expert_times()
    combine = np.arange(len(known)) >= len(each["dispatch"].size)
    for parts, pairs in (("equal", False), ("drawn", True)):
        ways = {n: expert_name(n, pairs) for n in rows.members.tolist()}
        best = fitted(times, EXPERTS_START, ways, rows.take(known))
        constants(best)
        if score:
            guess = predicted(times, best, ways, rows)
            for op, mine in (("dispatch", ~combine), ("combine", combine)):
                print_errors(
                    f"{op}, EP 32, 128, 256, {parts} parts", guess, rows.seconds, mine & ~known
                )


def expert_name(ranks: int, drawn: bool) -> str:
    """Name of a low-latency all-to-all with equal parts, or with those of :func:`drawn_pairs`."""
    return all_to_all_name(pairs=drawn_pairs(ranks) if drawn else (), kernel=LOW_LATENCY)


def drawn_pairs(
    ranks: int, tokens: int = 128, experts: int = 256, chosen: int = 8
) -> list[list[int]]:
    """Tokens from each rank to each rank, if each token's experts are drawn at random."""
    order = np.argsort(np.random.default_rng(1).random((ranks, tokens, experts)), axis=2)
    rank = (order[:, :, :chosen] * ranks // experts).reshape(ranks, -1)
    return [np.bincount(row, minlength=ranks).tolist() for row in rank]


PARTS = {
    "generation": other_generation,
    "experts": experts,
    "switch": in_switch,
    "sends": grouped_sends,
    "nodes": two_nodes,
    "across": across,
}


def main() -> None:
    """Run all parts, or those named on the command line."""
    named = [a for a in sys.argv[1:] if not a.startswith("-")]
    for name in named or PARTS:
        PARTS[name]("--score" in sys.argv)


if __name__ == "__main__":
    main()
