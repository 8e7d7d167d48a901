"""Scenarios by seed: each a plain mapping that is right by construction, or such a one damaged.

Every section is drawn: workloads, fabrics, parts, jobs, placement, processes, variants, a sweep,
an answer, expectations, prices. What one section draws, later ones may name.
"""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

Plain = dict[str, Any]
GPUS = ("h100-sxm5-80g", "a100-sxm4-80g", "mi300x-192g", "l40s", "v100-sxm2-32g")
RATES = ("100 Gb/s", "200 Gb/s", "400 Gb/s")
SIZES = ("0 B", "1 B", "64 KiB", "1 MB", "3.5 GB")
COLLECTIVES = ("all-reduce", "all-gather", "reduce-scatter", "all-to-all", "broadcast")
TIMES = ("0 s", "1 us", "2.5 ms", "1 s")
TRACE_STEPS = 2


def write_traces(folder: Path, script: Any) -> None:
    """Files of a recording of two ranks that meet in an all-reduce, and of one that meets none."""
    for rank in range(2):
        one = script(rank=rank, world=2)
        for step in range(TRACE_STEPS):
            at = 2000.0 * step
            one.step(step, at, 1900.0)
            one.op("aten::mm", at + 10, 40)
            one.launch(at + 20, at + 60, 400 + 50 * rank)
            told = {"Collective name": "allreduce", "In msg nelems": 1000, "Out msg nelems": 1000}
            told |= {"Group size": 2, "dtype": "Float", "Process Group Name": "0"}
            one.launch(at + 30, at + 520, 200, 20, "ncclDevKernel_AllReduce_Sum_f32", **told)
        one.write(folder, f"pair{rank}.json")
    alone = script()
    for step in range(TRACE_STEPS):
        alone.step(step, 2000.0 * step, 1900.0)
        alone.launch(2000.0 * step + 20, 2000.0 * step + 60, 400)
    alone.write(folder, "alone.json")


class Drawn:
    """One scenario, section by section."""

    def __init__(self, seed: int):
        self.draw = random.Random(seed)
        self.name = f"s{seed}"
        self.machines = self.draw.choice((1, 2, 2, 3, 4, 8))
        self.gpus = self.draw.choice((1, 1, 2, 4))
        self.kinds = self.draw.random() < 0.15 and self.machines > 1
        self.traced = self.draw.random() < 0.3 and self.machines * self.gpus >= 2 and not self.kinds
        self.several = not self.traced and self.draw.random() < 0.25 and self.ranks >= 2

    @property
    def ranks(self) -> int:
        """GPUs of the whole machine."""
        return self.machines * self.gpus

    def maybe(self, share: float) -> bool:
        return self.draw.random() < share

    def scenario(self) -> Plain:
        made: Plain = {"foretrace": 1, "name": self.name, "question": "Does it?"}
        made |= self.work()
        made["cluster"] = self.cluster()
        made |= self.backends()
        for share, part in (
            (0.3, self.processes), (0.3, self.cost), (0.5, self.what_if), (0.3, self.sweep),
            (0.5, self.expect), (0.2, self.answer), (0.2, self.placement), (0.2, self.ops),
        ):  # fmt: skip
            if self.maybe(share):
                made |= part()
        made["run"] = {"seed": self.draw.randrange(100), "replicas": self.draw.choice((1, 1, 2))}
        made["run"]["quick"] = self.maybe(0.8)
        if self.maybe(0.2):
            made["run"]["engine"] = self.draw.choice(("core", "reference"))
        if self.maybe(0.2):
            made["run"]["keep"] = self.draw.choice(("ops", "ranks", "none"))
        return made

    # Work

    def work(self) -> Plain:
        if self.traced:
            return {"workload": self.trace()}
        if not self.several:
            return {"workload": self.transfers(self.ranks)}
        half = self.ranks // 2
        on: Any = [half, self.ranks - half] if self.maybe(0.5) else [self.ranks, self.ranks]
        jobs = {}
        for name, room in zip(("a", "b"), on, strict=True):
            jobs[name] = {"workload": self.transfers(room), "on": {"gpu": room}}
            if self.maybe(0.4):
                jobs[name]["arrives"] = self.draw.choice(TIMES)
        return {"jobs": jobs}

    def trace(self) -> Plain:
        told: Plain = {"trace": "pair*.json", "recorded_on": {"device": self.draw.choice(GPUS)}}
        if self.maybe(0.3):
            told["recorded_on"] |= {"nodes": 1, "parallel": {"data": 2}}
        if self.maybe(0.3):
            data = self.draw.randrange(2, self.ranks + 1)
            told["recorded_on"] |= {"parallel": {"data": 2}}
            told["scale_to"] = {"parallel": {"data": data}}
        if self.maybe(0.2):
            told["iterations"] = {"warm_up": 1}
        if self.maybe(0.2):
            told["tokens_per_iteration"] = 4096
        return told

    def transfers(self, ranks: int) -> Plain:
        lines = [self.line(ranks) for _ in range(self.draw.choice((1, 1, 2, 3)))]
        told: Plain = {"type": "transfers", "ops": lines}
        if self.maybe(0.4):
            told["iterations"] = {"measure": self.draw.choice((1, 2, 3))}
        return told

    def line(self, ranks: int) -> Plain:
        kinds = ["copy:h2d", "copy:d2h"] + 2 * ["send:write", "collective"] * (ranks > 1)
        op, size = self.draw.choice(kinds), self.draw.choice(SIZES)
        if op == "collective":
            members = self.draw.sample(range(ranks), self.draw.randrange(2, ranks + 1))
            name = f"collective:{self.draw.choice(COLLECTIVES)}"
            return {"op": name, "bytes": size, "from": sorted(members)}
        if op == "send:write":
            to = self.draw.randrange(ranks)
            others = [r for r in range(ranks) if r != to]
            begin = self.draw.sample(others, self.draw.randrange(1, len(others) + 1))
            line = {"op": op, "bytes": size, "from": sorted(begin), "to": to}
        else:
            line = {"op": op, "bytes": size, "from": [self.draw.randrange(ranks)]}
        if self.maybe(0.3):
            line["count"] = self.draw.choice((2, 5))
            line["at_once"] = self.draw.choice((1, 2))
        return line

    # Machine

    def cluster(self) -> Plain:
        self.gpu = self.draw.choice(GPUS)
        node: Plain = {"gpu": {"model": self.gpu, "count": self.gpus}, "host": "epyc-7742-dual"}
        self.wired = self.machines > 1 or self.maybe(0.5)
        if self.wired:
            node["nic"] = {"model": "connectx-7", "count": self.gpus}
            if self.maybe(0.4):
                node["nic"]["bandwidth"] = self.draw.choice(RATES)
        if self.maybe(0.2):
            node["cxl"] = {"model": "cxl2-x16-expander"}
        node["memory"] = "epyc-7742-dual"
        node["links"] = [
            {"from": "gpu", "to": "gpu", "via": "nvlink4"},
            {"from": "gpu", "to": "host", "via": "pcie5-x16"},
        ]
        if self.maybe(0.6) and "nic" in node:
            node["links"].append({"from": "gpu", "to": "nic", "via": "pcie5-x16"})
        made: Plain = {"nodes": self.machines, "node": node}
        if self.kinds:
            first = self.draw.randrange(1, self.machines)
            made = {"kinds": {
                "left": {"count": first, **json.loads(json.dumps(node))},
                "right": {"count": self.machines - first, **node},
            }}  # fmt: skip
        made["fabric"] = self.fabric()
        if self.maybe(0.2):
            which = self.draw.choice(("node0.gpu0", "node0.gpu*", "node*.gpu0"))
            made["override"] = {which: {"slowdown": self.draw.choice((1.3, 2))}}
        return made

    def fabric(self) -> Plain:
        told: Plain = {"switch": "tomahawk-5", "library": "nccl-nvlink4"}
        shapes: list[Any] = ["fat-tree", {"use": "fat-tree", "routing": "ecmp", "seed": 3}]
        shapes += [
            {"use": "fat-tree", "routing": "spray"},
            {"use": "torus", "shape": [self.machines]},
        ]
        shapes += ["rail"] * (self.gpus > 1)
        shape = self.draw.choice(shapes)
        if self.maybe(0.6):
            told["topology"] = shape
        if self.maybe(0.2) and "torus" not in str(shape):
            told["oversubscription"] = 2
        if self.maybe(0.2):
            told["expand"] = "ring, pairwise, chain"
        return told

    def backends(self) -> Plain:
        if self.traced:
            return {"backends": {"node*.gpu*": {"use": "recorded"}}} if self.maybe(0.5) else {}
        return {"backends": {"node*.gpu*": {"use": "roofline"}}}

    def placement(self) -> Plain:
        if self.several:
            return {}
        names = [f"node{n}.gpu{g}" for n in range(self.machines) for g in range(self.gpus)]
        self.draw.shuffle(names)
        return {"placement": {"ranks": names}}

    def processes(self) -> Plain:
        use = self.draw.choice(("degrade", "degrade", "degrade", "hot-spare", "fail"))
        one: Plain = {"use": use}
        if use == "hot-spare":
            one |= {"spares": ["node0.gpu0"], "period": "1 ms", "swap": "1 ms"}
        else:
            one |= {"component": "node0.gpu0", "at": self.draw.choice(TIMES)}
        if use == "degrade":
            one["component"] = "node0.nic0.tx"
            one |= {"lasts": "1 ms", "slowdown": 2}
        if self.several or (use == "degrade" and not self.wired):
            return {}
        return {"processes": [one]}

    def ops(self) -> Plain:
        if not self.traced:
            return {}
        action = self.draw.choice(({"scale": 2}, {"time": "1 us"}, {"remove": True}))
        return {"ops": [{"where": {"name": "gemm"}, **action}]}

    # Asked

    def setting(self) -> tuple[str, list[Any]]:
        """A setting that every drawn machine has, and values it may take."""
        node = "kinds.left" if self.kinds else "node"
        found: list[tuple[str, list[Any]]] = [
            ("run.seed", [1, 2]),
            (f"cluster.{node}.host.cores", [8, 64]),
            ("cluster.fabric.switch.latency", ["0.5 us", "1 us"]),
        ]
        if self.machines > 1:
            found.append((f"cluster.{node}.nic.bandwidth", list(RATES)))
        return self.draw.choice(found)

    def what_if(self) -> Plain:
        variants = []
        for name in ("one", "two")[: self.draw.choice((1, 2))]:
            path, values = self.setting()
            variants.append({"name": name, "set": {path: self.draw.choice(values)}})
        if len(variants) == 2 and self.maybe(0.4):
            variants.append({"name": "both", "use": ["one", "two"]})
        return {"what_if": variants}

    def sweep(self) -> Plain:
        path, values = self.setting()
        told: Plain = {"vary": {path: values}}
        if self.maybe(0.3):
            told["method"] = self.draw.choice(("grid", "random"))
            told |= {"points": 3} if told["method"] == "random" else {}
        if self.maybe(0.4):
            told["optimize"] = [{"minimize": self.metric("makespan")}]
        return {"sweep": told}

    def metric(self, name: str) -> str:
        return f"a.{name}" if self.several else name

    def expect(self) -> Plain:
        bars = [f"{self.metric('makespan')} <= {self.draw.choice(('1 us', '1 min'))}"]
        bars += [f"{self.metric('iteration_time.p50')} <= 1 s", "gpu.utilization.mean >= 1 %"]
        return {"expect": [
            {"that": that, "otherwise": self.draw.choice(("fail", "warn"))}
            for that in self.draw.sample(bars, 2)
        ]}  # fmt: skip

    def answer(self) -> Plain:
        return {"answer": {"minimize": self.metric("makespan")}}

    def cost(self) -> Plain:
        items = [{"what": "gpu", "each": "2.1 USD/hour"}]
        if self.maybe(0.5):
            items.append({"what": "node", "each": "0.5 USD/hour"})
        if self.kinds:
            items.append({"what": "kind:left", "each": "1 USD/hour"})
        return {"cost": {"items": items}}


def scenario(seed: int) -> Plain:
    """A scenario that is right, as far as its author knows."""
    return Drawn(seed).scenario()


def _machines(tree: Plain) -> list[Plain]:
    """Descriptions of machines."""
    cluster = tree["cluster"]
    return list(cluster["kinds"].values()) if "kinds" in cluster else [cluster["node"]]


def _works(tree: Plain) -> list[Plain]:
    """Descriptions of workloads."""
    return [j["workload"] for j in tree["jobs"].values()] if "jobs" in tree else [tree["workload"]]


def _edit_machine(tree: Plain, draw: random.Random) -> None:
    node = draw.choice(_machines(tree))
    key = draw.choice(("gpu", "host", "nic", "memory", "links", "count"))
    if key == "count":
        node["gpu"]["count"] = draw.choice((0, 1, 3, 10**9))
    elif draw.random() < 0.5:
        node.pop(key, None)
    elif isinstance(node.get(key), dict):
        node[key]["model"] = draw.choice(("connectx-7", "h100-sxm5-80g", "none", "lab-port"))
    else:
        node[key] = draw.choice(("epyc-7742-dual", {"cores": 1}, {}, []))


def _edit_cluster(tree: Plain, draw: random.Random) -> None:
    fabric = tree["cluster"]["fabric"]
    edits: list[tuple[Plain, str, Any]] = [
        (fabric, "topology", {"use": "torus", "shape": [3]}),
        (fabric, "topology", {"use": "fat-tree", "routing": "spray", "paths": 10**6}),
        (fabric, "topology", {"use": "dragonfly", "routers": 2, "nics": 1, "global_links": 1}),
        (fabric, "topology", {"use": "graph", "file": "nowhere.yaml"}),
        (fabric, "oversubscription", draw.choice((0, 0.5, 10**9))),
        (fabric, "library", draw.choice(("gloo", "none"))),
        (fabric, "switch", {"bandwidth": "1 Gb/s", "latency": "1 us", "ports": 1}),
        (fabric, "expand", draw.choice(("ring", "chain", "none"))),
        (fabric, "gpu_domain", draw.choice((2, 3, 0))),
        (tree["cluster"], "nodes", draw.choice((1, 0, 10**12))),
        (tree["cluster"], "override", {"node9.gpu0": {"slowdown": 2}}),
        (tree["cluster"], "override", {"node0.gpu0": {"down": True}}),
        (tree["cluster"], "override", {"node0.nic0*": {"down": True}}),
    ]
    holder, key, value = draw.choice(edits)
    holder[key] = value


def _edit_work(tree: Plain, draw: random.Random) -> None:
    work = draw.choice(_works(tree))
    if "trace" in work:
        edits: list[Plain] = [
            {"trace": "pair0.json"}, {"trace": "alone.json"}, {"trace": "gone*.json"},
            {"missing_ranks": "like_recorded"}, {"iterations": {"warm_up": 2}},
            {"iterations": {"measure": 9}}, {"scale_to": {"parallel": {"data": 3, "tensor": 2}}},
            {"scale_to": {"parallel": {"data": 64}}}, {"recorded_on": {"device": "none"}},
            {"recorded_on": {"nodes": 5}}, {"format": "chakra"}, {"serialise": True},
        ]  # fmt: skip
        work |= draw.choice(edits)
        return
    line = draw.choice(work["ops"])
    key, value = draw.choice((
        ("from", [99]), ("from", []), ("to", 99), ("to", 0), ("count", 10**12), ("at_once", 50),
        ("op", "copy:sideways"), ("op", "collective:none"), ("op", "compute:mm"), ("op", "host:x"),
        ("op", "send:write"), ("op", "collective:all-reduce"), ("bytes", "9 EB"), ("from", [0, 0]),
    ))  # fmt: skip
    line[key] = value
    if value == "9 EB":  # takes years: who looks every millisecond looks for hours of ours
        for steering in tree.get("processes", ()):
            steering |= {"period": "1000000 s"} if "period" in steering else {}


def _edit_asked(tree: Plain, draw: random.Random) -> None:
    edits: list[Plain] = [
        {"answer": {"maximize": "tokens_per_second.p50"}}, {"answer": {"minimize": "a.makespan"}},
        {"expect": [{"that": "cxl.utilization.p95 <= 1 %"}]},
        {"expect": [{"that": "cost_per_million_tokens <= 1 USD"}]},
        {"expect": [{"that": "makespan <= 1 GB"}]}, {"expect": [{"that": "b.makespan <= 1 s"}]},
        {"cost": {"items": [{"what": "cxl", "each": "1 USD/hour"}]}},
        {"cost": {"items": [{"what": "kind:none", "each": "1 USD/hour"}]}},
        {"cost": {"items": [{"what": "memory", "each": "1 USD/hour", "per": "64 GB"}]}},
        {"what_if": [{"name": "v", "set": {"cluster.node.nic.bandwith": "1 Gb/s"}}]},
        {"what_if": [{"name": "v", "use": ["w"]}]}, {"what_if": [{"name": "base"}]},
        {"what_if": [{"name": "v", "set": {"cluster.nodes": 1}}]},
        {"what_if": [{"name": "v", "backends": {"node*.gpu*": {"use": "table", "file": "x.csv"}}}]},
        {"what_if": [{"name": "v", "cost": {"switch": "1 USD/hour"}}]},
        {"sweep": {"vary": {"cluster.nodes": [1, 0]}}},
        {"sweep": {"vary": {"run.seed": {"from": 1, "to": 5}}}},
        {"sweep": {"method": "nsga2", "vary": {"run.seed": [1, 2]}}},
        {"placement": {"ranks": ["node0.gpu0"]}}, {"placement": {"ranks": ["node9.gpu9"] * 8}},
        {"placement": {"ranks": ["node0.gpu0"] * 64}}, {"placement": {"ranks": []}},
        {"processes": [{"use": "fail", "component": "node9.gpu0", "at": "1 s"}]},
        {"processes": [{"use": "degrade", "component": "fabric", "at": "0 s", "slowdown": 0}]},
        {"processes": [{"use": "degrade", "component": "node0.host", "at": "0 s"}]},
        {"processes": [{"use": "hot-spare", "spares": [], "period": "0 s", "swap": "0 s"}]},
        {"ops": [{"where": {"name": "nothing"}, "scale": 2}]},
        {"ops": [{"where": {"kind": "collective"}, "rank": 99}]},
        {"backends": {"node*.gpu*": {"use": "gloo"}}}, {"backends": {"node*": {"use": "nic"}}},
        {"backends": {"fabric": {"use": "recorded"}}}, {"backends": {"*": {"use": "recorded"}}},
        {"backends": {"node7.gpu0": {"use": "roofline"}}}, {"backends": {"*": {"use": "host"}}},
        {"run": {"quick": True, "memory": "1 kB"}}, {"run": {"quick": True, "defend": True}},
        {"jobs": {"a": {"workload": {"trace": "pair*.json"}, "on": {"gpu": 99}}}},
        {"hil": {"swap": [{"component": "node0.gpu9", "driver": "host"}]}},
        {"control": {"what": "x", "of": "base", "against": "base"}},
    ]  # fmt: skip
    tree |= draw.choice(edits)


def damaged(seed: int) -> Plain:
    """A scenario with one thing changed within its form: what it means may be impossible."""
    draw = random.Random(seed)
    tree = scenario(seed)
    edit = draw.choice((_edit_machine, _edit_cluster, _edit_work, _edit_asked, _edit_asked))
    edit(tree, draw)
    return tree
