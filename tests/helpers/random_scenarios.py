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
        if self.machines > 1 or self.maybe(0.5):
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
            one["spares"] = ["node0.gpu0"]
        else:
            one |= {"component": "node0.gpu0", "at": self.draw.choice(TIMES)}
        if use == "degrade":
            one |= {"lasts": "1 ms", "slowdown": 2}
        if self.several:
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
