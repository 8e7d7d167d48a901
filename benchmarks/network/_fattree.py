"""Flows on a fat-tree of k-port switches: k^3/4 hosts, three tiers, full bisection, 12.5 GB/s.

Routes are chosen by the digits of the destination (D-mod-k), so flows to one host share their
downward path.
"""

import numpy as np
from foretrace.sim.engine_api.interface import ONE, ComponentTable, Flows
from numpy.typing import NDArray

RATE = 12.5e9  # B/s of every link and direction
SCALE = 24  # 16 x the rate stays below 2^62 units of 2^-24 B/s
PER_SECOND = 10**12  # ticks

Table = tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]  # from, to, bytes


def derangement(hosts: int, rng: np.random.Generator) -> NDArray[np.int64]:
    """Random permutation without fixed points: no host sends to itself."""
    order = rng.permutation(hosts)
    to = np.empty(hosts, np.int64)
    to[order] = np.roll(order, 1)
    return to


def flows(kind: str, k: int, seed: int = 3) -> Table:
    """Traffic pattern: sender, receiver and size of each flow.

    ``ring``: 64 MB to the next host. ``perm``: a permutation. ``incast``: groups of 32 hosts to
    one. ``rand4``: 4 random receivers per host. ``incastall``: all hosts to host 0. ``a2a16``:
    all-to-all in strided groups of 16, 8 MB each. ``thin``: as ``rand4``, with links between
    switches at a quarter of the rate (`rates`). Other sizes are 10 to 100 MB.
    """
    hosts, rng = k**3 // 4, np.random.default_rng(seed)
    everyone = np.arange(hosts)
    if kind == "ring":
        return everyone, (everyone + 1) % hosts, np.full(hosts, 64_000_000)
    if kind == "a2a16":
        source, hop = np.repeat(everyone, 15), np.tile(np.arange(1, 16), hosts)
        return source, (source + hop * (hosts // 16)) % hosts, np.full(15 * hosts, 8_000_000)
    if kind == "perm":
        source, to = everyone, derangement(hosts, rng)
    elif kind == "incast":
        groups = rng.permutation(hosts).reshape(-1, 32)
        source, to = groups[:, 1:].ravel(), np.repeat(groups[:, 0], 31)
    elif kind in ("rand4", "thin"):
        source = np.repeat(everyone, 4)
        to = (source + rng.integers(1, hosts, 4 * hosts)) % hosts
    elif kind == "incastall":
        source, to = everyone[1:], np.zeros(hosts - 1, np.int64)
    else:
        raise ValueError(f"{kind}: unknown traffic")
    return source, to, rng.integers(10_000_000, 100_000_000, len(source))


def routes(
    k: int, source: NDArray[np.int64], to: NDArray[np.int64]
) -> tuple[NDArray[np.int64], NDArray[np.int64], int]:
    """Links of every flow: (indptr, link numbers, number of links)."""
    half, hosts = k // 2, k**3 // 4
    edge_from, edge_to = source // half, to // half
    pod_from, pod_to = edge_from // half, edge_to // half
    first, second = to % half, edge_to % half
    base = hosts * np.arange(6)  # six layers of links, as many in each as there are hosts
    far, other = edge_from != edge_to, pod_from != pod_to
    steps = [
        (source, np.ones(len(source), bool)),
        (edge_from * half + first, far),
        ((pod_from * half + first) * half + second, other),
        ((pod_to * half + first) * half + second, other),
        ((pod_to * half + first) * half + edge_to % half, far),
        (to, np.ones(len(source), bool)),
    ]
    links = np.column_stack([at + b for (at, _), b in zip(steps, base, strict=True)])
    used = np.column_stack([where for _, where in steps])
    indptr = np.concatenate([[0], np.cumsum(used.sum(axis=1))])
    return indptr, links[used], 6 * hosts


def rates(kind: str, k: int) -> NDArray[np.float64]:
    """Rate of every link of `routes` in B/s; for ``thin``, links between switches are slower."""
    hosts = k**3 // 4
    between = RATE / 4 if kind == "thin" else RATE
    return np.repeat([RATE, between, between, between, between, RATE], hosts)


def star(senders: int, seed: int = 3) -> tuple[NDArray[np.int64], NDArray[np.int64], int, Table]:
    """Traffic of all senders into one port over own links: (indptr, links, count, flows)."""
    everyone = np.arange(senders)
    size = np.random.default_rng(seed).integers(10_000_000, 100_000_000, senders)
    links = np.column_stack([everyone + 1, np.zeros(senders, np.int64)]).ravel()
    return 2 * np.arange(senders + 1), links, senders + 1, (everyone, 0 * everyone, size)


def medium_input(
    indptr: NDArray[np.int64],
    link: NDArray[np.int64],
    rates: NDArray[np.float64],
    size: NDArray[np.int64],
) -> tuple[ComponentTable, Flows]:
    """Component table and flows in the form that the max-min medium takes."""
    links = len(rates)
    rate = np.rint(rates * 2**SCALE).astype(np.int64)
    slots = np.full(links, -1, np.int32)
    work = [int(b) * PER_SECOND << SCALE for b in size]
    return ComponentTable(tuple(f"link{i}" for i in range(links)), slots, rate, rate * 16), Flows(
        np.arange(len(size), dtype=np.int32),
        np.array([w >> 64 for w in work], np.int64),
        np.array([w % 2**64 for w in work], np.uint64),
        np.full(len(size), -1, np.int64),
        indptr,
        link.astype(np.int32),
        np.full(len(link), ONE, np.int64),
    )
