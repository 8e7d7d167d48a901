"""Every setting that is known, changed: a number changes, or it is listed, or it is an error.

Each setting is tried in small scenarios that are about different things, until one is found in
which it matters. What changes no number anywhere must be told as of no effect by ``compare``.
"""

from collections import Counter

import pytest
from foretrace.scenarios.config.explanation import explain
from foretrace.scenarios.config.loader import loads
from foretrace.scenarios.config.scenario import values_by_dotted_path
from foretrace.scenarios.config.settings import known_backends, known_processes
from foretrace.scenarios.studies.explaining.comparison import compare
from foretrace.scenarios.studies.summaries.summary import metric_values
from foretrace.scenarios.studies.variants.variants import build_variant, run_with_replicas
from foretrace.sim.errors import ForetraceError

HEAD = "foretrace: 1\nname: all\n"
CLUSTER = """\
cluster:
  nodes: 4
  node:
    gpu: {model: h100-sxm5-80g, count: 1, copy_engines: 1}
    host: epyc-zen4-vm
    memory: {bandwidth: 200 GB/s, latency: 100 ns, size: 64 GB}
    cxl: {bandwidth: 30 GB/s, latency: 300 ns, size: 64 GB}
    nic: {model: connectx-7, count: 1}
    links:
      - {from: gpu, to: nic, via: pcie5-x16}
      - {from: gpu, to: host, via: pcie5-x16}
  fabric: {switch: tomahawk-5, library: nccl-nvlink4}
cost: {items: [{what: node, each: 1 USD/hour}]}
"""
TRACE = """\
workload:
  trace: rank*.json.gz
  recorded_on: {device: h100-sxm5-80g, nodes: 2, parallel: {data: 2}}
  scale_to: {parallel: {data: 4}}
  tokens_per_iteration: 1000
"""
TRANSFERS = """\
workload:
  type: transfers
  iterations: {measure: 2}
  ops:
    - {op: "send:write", bytes: 1 MB, from: [0, 1, 2], to: 3}
    - {op: "copy:h2d", bytes: 1 MB, from: [0]}
    - {op: "copy:c2d", bytes: 1 MB, from: [0]}
    - {op: "copy:d2d", bytes: 1 MB, from: [0]}
"""
POOLS = """\
workload:
  type: transfers
  ops: [{op: "compute:filter", on: nf, bytes: 1 MB, from: [0, 1], count: 8, at_once: 8}]
placement: {ranks: ["node*.host"]}
cluster:
  nodes: 2
  node:
    pools: {nf: {slots: 2, time: 1 us, rate: 1 GB/s, queue: {length: 3, full: drop}}}
"""
BOUND = "backends: {{{}: {{use: {}{}}}}}\n"
ROOFLINE = BOUND.format("node*.gpu*", "roofline", "")
BASES = {
    "pools": HEAD + POOLS,
    "recorded": HEAD + TRACE + CLUSTER,
    "predicted": HEAD + TRACE + CLUSTER + ROOFLINE,
    "one process": HEAD + TRACE.replace("rank*", "alone/rank0").replace("{data: 2}", "{data: 1}")
    + CLUSTER,
    "transfers": HEAD + TRANSFERS + CLUSTER + ROOFLINE,
    "cores": HEAD + TRACE + CLUSTER.replace("count: 1, copy", "count: 1, core: true, copy")
    .replace("library: nccl-nvlink4", "library: {model: nccl-nvlink4, cores: {rate: 9 GB/s}}"),
}  # fmt: skip
COMPONENTS = {  # what each backend answers for, where, and what it must be told
    "roofline": ("predicted", "node*.gpu*", ""),
    "carried": ("recorded", "node*.gpu*", ", recorded_on: a100-sxm4-80g"),
    "chain": ("predicted", "node*.gpu*", ""),  # its settings are those of its links
    "recorded": ("recorded", "node*.gpu*", ""),
    "host": ("recorded", "node*.host", ""),
    "host-stream": ("recorded", "node*.host", ""),
    "copy": ("transfers", "node*.gpu*.dma", ""),
    "fabric": ("cores", "fabric", ""),
    "gloo": ("cores", "fabric", ", message: 2 us"),
    # parts that are shared are not asked; the cluster says what they are
    "memory": ("transfers", "node*.cxl", ""),
    "link": ("transfers", "node*.gpu*.h2d", ", bandwidth: 9 GB/s, latency: 9 us"),
    "nic": ("transfers", "node*.nic*", ""),
    "lossy-link": ("transfers", "node*.nic*", ", loss: 1 %, round_trip: 1 ms"),
    "switch": ("transfers", "leaf*", ""),
    "table": ("predicted", "node*.gpu*", ", file: none.csv"),
    "families": ("predicted", "node*.gpu*", ", file: none.json"),
    "layer-profile": ("predicted", "node*.gpu*", ", file: none, hidden: 8, sequence: 8"),
    "service": ("pools", "node*.nf*", ""),
    "recording": ("predicted", "node*.gpu*", ", file: none.rec"),
}
STEERING = {  # what it must be told
    "degrade": ", component: node3.nic0.rx, at: 1 us, slowdown: 4",
    "fail": ", component: node3.gpu0, at: 1 us",
    "link-failure": ", links: [node3.nic0.rx], at: 1 us, lasts: 1 us",
    "hot-spare": ", spares: [node3.gpu0], period: 1 us",
}
ELSEWHERE = {  # what a setting is about is not the numbers of one run
    "foretrace": "the form of the file",
    "name": "the folder of the run",
    "question": "the report",
    "report": "the report",
    "extends": "another file",
    "plugins": "another file",
    "what_if": "other runs",
    "sweep": "other runs",
    "expect": "the exit code",
    "catalog": "parts that somebody names",
    "media": "a plug-in that somebody names",
    "hil": "devices",
    "backends": "below, backend by backend",
    "processes": "below, process by process",
    "run.workers": "where points run, never what they say",
    "run.time_limit": "when a run is given up",
    "run.memory": "when a run is refused",
    "run.engine": "how, never what: the twins' tests",
    "run.keep": "which tables are kept",
    "run.replicas": "the interval",
    "run.defend": "what an answer rests on, beside it",
    "run.quick": "what an answer rests on, beside it",
    "run.seed": "draws, of which one run has none",
    "cost.currency": "there is one",
}
TEXTS = ("foretrace:gpt", "h200-sxm-141g", "nvlink4", "ring", "tree", "alpha-beta", "gpu", "host",
         "nic", "send:read", "copy:d2h", "rank0.json.gz")  # fmt: skip


def settings():
    """Dotted paths of everything that a file may say, but for backends, and what each means."""
    todo = [*explain("scenario").below]
    while todo:
        path = todo.pop()
        if any(path == p or path.startswith(f"{p}.") for p in ELSEWHERE):
            continue
        found = explain(path)
        below = [f"{path}.{key}" for key in found.below if key != "source"]
        if not below or path.count(".") > 3:
            yield path, found
        else:
            todo += below


def of_backends():
    """The same of every backend, with the scenario in which it answers for something."""
    for name in known_backends():
        base, where, told = COMPONENTS[name]
        text = BASES[base].replace(ROOFLINE, "") + BOUND.format(where, name, told)
        for key in explain(name).below:
            if key != "use":
                yield f"backends.{where}.{key}", explain(f"backends.x.{key}"), {name: text}


def of_processes():
    """The same of every process that a scenario can name."""
    for name, told in STEERING.items():
        text = BASES["transfers"] + f"processes: [{{use: {name}{told}}}]\n"
        for key in explain(name).below:
            if key != "use":
                yield f"processes.0.{key}", explain(f"processes.{key}"), {name: text}


TRIED = [(path, found, BASES) for path, found in sorted(settings(), key=str)]
TRIED += [*of_backends(), *of_processes()]


def alternatives(found):
    """Values that a setting might take, as a file says them."""
    facts = found.facts
    if "values" in facts:
        return facts["values"].split(", ")
    if "like" in facts:
        return (facts["like"], "0.5", "3 us", "3 GB/s", "3 GB", "50 W", "3 Tflop/s", "3 USD/hour")
    kinds = {"integer": ("3", "1", "64"), "number": ("2", "0.5"), "boolean": ("true", "false"),
             "array": ("[node1.gpu0, node0.gpu0, node2.gpu0, node3.gpu0]", "[]")}  # fmt: skip
    return kinds.get(facts.get("type", ""), TEXTS)


def laid(path, value):
    """The setting as an option; of a list, its first entry."""
    for entry in ("cluster.node.links", "cost.items", "workload.ops"):
        if path.startswith(f"{entry}."):
            return f"{entry}.0{path.removeprefix(entry)}={value}"
    return f"{path}={value}"


def numbers(scenario):
    return {
        name: v.value
        for name, v in metric_values(run_with_replicas(build_variant(scenario))).items()
    }


class Tries:
    """What comes of each setting; the scenarios as they are are run once."""

    def __init__(self):
        self.base = {}

    def outcome(self, path, found, bases):
        """``changed`` by some value in some scenario; else those that changed nothing, if any."""
        same = []
        for text in bases.values():
            for value in alternatives(found):
                option = laid(path, value)
                one = self._one(option, text)
                if one == "changed":
                    return "changed"
                same += [(text, option)] if one == "same" else []
        return same or "error"

    def _one(self, option, text):
        """``as it was`` where the scenario says so already."""
        try:
            changed = loads(text, set=[option])
            if numbers(changed) != self._of(text):
                return "changed"
        except ForetraceError:
            return "error"
        before, after = (values_by_dotted_path(s.resolved()) for s in (loads(text), changed))
        path, _, value = option.partition("=")
        said = str(after.get(path)).lower()
        return "as it was" if before == after and said == value else "same"

    def _of(self, text):
        if text not in self.base:
            self.base[text] = numbers(loads(text))
        return self.base[text]


@pytest.fixture(scope="module")
def traces(script, tmp_path_factory):
    """Two ranks, and one alone: a copy to the GPU, a product, a sum over ranks, twice."""
    folder = tmp_path_factory.mktemp("settings")
    (folder / "alone").mkdir()
    for rank, world in ((0, 2), (1, 2), (0, 1)):
        s = script(rank, world)
        for k in range(3):
            _step(s, k, 720 * k, world)
        s.write(folder if world > 1 else folder / "alone")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        yield folder


def _step(s, k, at, world):
    s.step(k, at, 720)
    s.op("aten::to", at + 5, 20)
    c = s.call("cudaMemcpyAsync", at + 10, 5)
    s.add("gpu_memcpy", "Memcpy HtoD (Pageable -> Device)", at + 20, 50, pid=0, tid=7, stream=7,
          device=0, correlation=c, bytes=10**6)  # fmt: skip
    shapes = {"Input Dims": [[512, 512], [512, 512]], "Input type": ["float", "float"]}
    for i, (name, dtype) in enumerate((("aten::mm", "float"), ("aten::mm", "c10::BFloat16"))):
        types = {"Input type": [dtype, dtype]}
        s.op(name, at + 50 + 60 * i, 40, **{**shapes, **types, "External id": 2 * k + i})
        s.launch(at + 60 + 60 * i, at + 100 + 100 * i, 90, **{"External id": 2 * k + i})
    s.op("torch::autograd::AccumulateGrad", at + 200, 20,
         **{"Input Dims": [[512, 512]], "Input type": ["float"]})  # fmt: skip
    if world > 1:
        said = {"Collective name": "allreduce", "dtype": "Float", "In msg nelems": 262144,
                "Out msg nelems": 262144, "Process Group Name": "0",
                "Process Group Ranks": "[0, 1]"}  # fmt: skip
        s.launch(at + 230, at + 300, 200, stream=20, name="ncclDevKernel_AllReduce_Sum_f32", **said)
    s.op("aten::item", at + 600, 100)


def test_every_setting_is_tried_and_every_backend_has_a_component():
    assert len(TRIED) > 150
    assert COMPONENTS.keys() == known_backends().keys()
    assert STEERING.keys() == known_processes().keys()


def listed(path, same):
    """Whether ``compare`` lists a change of the setting that changed no number."""
    last = path.rpartition(".")[2]
    return any(
        last in told.split(".")
        for text, option in same
        for told in compare(loads(text), loads(text, set=[option])).no_effect
    )


@pytest.mark.nightly
def test_no_setting_is_ignored(traces):
    tries = Tries()
    found = [(next(iter(b)), path, tries.outcome(path, f, b)) for path, f, b in TRIED]
    count = Counter(o if isinstance(o, str) else "same" for _, _, o in found)
    for base, path, outcome in found:
        print(base, path, outcome if isinstance(outcome, str) else "same")
    print(count)
    assert count["changed"] > 70
    same = [(path, outcome) for _, path, outcome in found if not isinstance(outcome, str)]
    assert [path for path, tried in same if not listed(path, tried)] == []
