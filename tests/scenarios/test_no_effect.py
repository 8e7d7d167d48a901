"""Every setting that is known, changed: something changes, or it is listed, or it is an error."""

import pytest
from foretrace.scenarios.explain import explain
from foretrace.scenarios.loader import loads
from foretrace.scenarios.points import measured, point
from foretrace.scenarios.summary import values
from foretrace.scenarios.unanswered import unanswered
from foretrace.sim.errors import ForetraceError

BASE = """\
foretrace: 1
name: all
workload:
  trace: foretrace:gpt
  recorded_on: {device: epyc-zen4-core, nodes: 1, parallel: {data: 1}}
  scale_to: {parallel: {data: 2}}
  iterations: {warm_up: 1, measure: 2}
  tokens_per_iteration: 1000
cluster:
  nodes: 2
  node:
    gpu: {model: epyc-zen4-core, count: 1}
    host: epyc-zen4-vm
    memory: epyc-zen4-vm
    nic: {model: loopback-tcp, count: 1}
    links: [{from: gpu, to: nic, via: loopback-tcp}]
  fabric: {library: gloo, switch: {bandwidth: 10 Gb/s, latency: 1 us, ports: 16}}
cost: {items: [{what: node, each: 1 USD/hour}]}
run: {seed: 1}
"""
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
    "hil": "devices",
    "run.workers": "where points run, never what they say",
    "run.time_limit": "when a run is given up",
    "run.memory": "when a run is refused",
    "run.engine": "how, never what: the twins' tests",
    "run.keep": "which tables are kept",
    "run.replicas": "the interval",
    "run.seed": "draws, of which one run has none",
    "cost.currency": "there is one",
}


def settings():
    """Dotted paths of everything that a file may say, below the scenario above."""
    todo = [*explain("scenario").below]
    while todo:
        path = todo.pop()
        if any(path == p or path.startswith(f"{p}.") for p in ELSEWHERE):
            continue
        found = explain(path)
        below = [f"{path}.{key}" for key in found.below if key not in ("source",)]
        if not below or path.count(".") > 3:
            yield path, found
        else:
            todo += below


KNOWN = dict(settings())


def alternatives(found):
    """Values that a setting might take, as a file says them."""
    facts = found.facts
    if "values" in facts:
        yield from facts["values"].split(", ")
    elif "like" in facts:
        yield from (facts["like"], "0.5", "3 us", "3 GB/s", "3 GB", "50 W", "3 Tflop/s")
    else:
        yield from {
            "integer": ("3", "1", "64"),
            "number": ("2", "0.5"),
            "boolean": ("true", "false"),
            "array": ("[node1.gpu0, node0.gpu0]", "[]"),
        }.get(facts.get("type", ""), ("foretrace:resnet50", "epyc-zen4-core", "x"))


def numbers(scenario):
    return {name: v.value for name, v in values(measured(point(scenario))).items()}


@pytest.fixture(scope="module")
def base():
    return numbers(loads(BASE))


def outcome(path, value, base):
    """``changed``, ``same``, or the class of the error."""
    try:
        changed = loads(BASE, set=[f"{path}={value}"])
        if any(p.severity == "error" for p in unanswered(changed)):
            return "error"
        return "changed" if numbers(changed) != base else "same"
    except ForetraceError as error:
        return f"error {error}"


def test_there_are_settings_to_try():
    assert len(KNOWN) > 60
    assert {"cluster.nodes", "cluster.node.nic.bandwidth", "workload.serialise"} <= set(KNOWN)


@pytest.mark.nightly
@pytest.mark.parametrize("path", sorted(KNOWN))
def test_a_setting_that_is_changed_is_not_ignored(path, base):
    """What changes no number is told as a difference, and listed by ``compare`` as of no effect."""
    from foretrace.scenarios.compare import _differing, _flat

    same = []
    for value in alternatives(KNOWN[path]):
        found = outcome(path, value, base)
        if found == "changed":
            return
        same += [value] if found == "same" else []
    for value in same:
        told = _differing(
            _flat(loads(BASE).resolved()), _flat(loads(BASE, set=[f"{path}={value}"]).resolved())
        )
        seen = any(p.startswith(path) or path.startswith(p) for p in told)
        assert seen or value in BASE, f"{path}={value} leaves no trace in what was resolved"
