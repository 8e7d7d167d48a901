"""foretrace: profile operations once; simulate any machine; learn how far to trust the answer.

Names are loaded when they are first used, so that ``import foretrace`` costs next to nothing.

>>> import foretrace
>>> system = foretrace.System((foretrace.Component("node0.gpu0", "gpu", slots=1),), ("node0.gpu0",))
>>> build = foretrace.Builder("two kernels")
>>> first = build.op(foretrace.Kind.COMPUTE, duration=1e-3)
>>> _ = build.op(foretrace.Kind.COMPUTE, duration=2e-3, after=[first])
>>> from foretrace.models.compute.recorded import Recorded
>>> foretrace.Simulation(system, {"*": Recorded()}).run(build.graph()).makespan
0.003

A scenario file: ``foretrace.run(foretrace.load("first")).results["base"].frame()``; its
variants or other runs beside it: ``foretrace.compare("first")``; many points of it:
``foretrace.sweep(scenario)``.

The names in ``__all__`` are what can be relied on: until 1.0 a minor version may change one, and
CHANGELOG says so; from then on only a major version does, and the old form warns for one minor
version before. Everything else may move at any time.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .reports.export.kept_ops import read_ops
    from .scenarios.config.loader import load
    from .scenarios.config.scenario import Scenario
    from .scenarios.studies.explaining.comparison import Comparison, compare
    from .scenarios.studies.run.run import Study
    from .scenarios.studies.run.run import study as run
    from .scenarios.studies.sweep.sweep import sweep
    from .scenarios.studies.sweep.sweep_summary import Swept
    from .sim.errors import (
        BackendError,
        ForetraceError,
        GraphError,
        HardwareUnavailable,
        ScenarioError,
        SimulationError,
        TraceError,
    )
    from .sim.facts.backend import Backend, Holds, Spread, Timing, Usage, backend
    from .sim.facts.coded import Coded
    from .sim.facts.doubt import Doubt
    from .sim.facts.eviction.store import Store
    from .sim.facts.graph import Builder, Graph, Label, Member
    from .sim.facts.items.pool import ItemPool
    from .sim.facts.kind import Kind, Role
    from .sim.facts.metric import Metric
    from .sim.facts.ops import Ops, require
    from .sim.facts.place import place
    from .sim.facts.system import Component, Location, System
    from .sim.facts.waiting_room import Queue
    from .sim.facts.way import Way
    from .sim.items.item_policy import item_kernel
    from .sim.items.item_stream import ItemStream
    from .sim.kernel.policy import policy_kernel
    from .sim.record.step_grid import StepGrid
    from .sim.run.allocator import Allocator
    from .sim.run.job import Job
    from .sim.run.periodic import Periodic
    from .sim.run.policies.compiled_process import CompiledProcess
    from .sim.run.process import Process, Running, process
    from .sim.run.result import Result
    from .sim.run.simulation import Simulation
    from .sim.run.workload import Need, Needs, Workload, workload
    from .traces.formats.autodetect import read as read_trace
    from .traces.trace import Trace

__all__ = [
    "Allocator",
    "Backend",
    "BackendError",
    "Builder",
    "Coded",
    "Comparison",
    "CompiledProcess",
    "Component",
    "Doubt",
    "ForetraceError",
    "Graph",
    "GraphError",
    "HardwareUnavailable",
    "Holds",
    "ItemPool",
    "ItemStream",
    "Job",
    "Kind",
    "Label",
    "Location",
    "Member",
    "Metric",
    "Need",
    "Needs",
    "Ops",
    "Periodic",
    "Process",
    "Queue",
    "Result",
    "Role",
    "Running",
    "Scenario",
    "ScenarioError",
    "Simulation",
    "SimulationError",
    "Spread",
    "StepGrid",
    "Store",
    "Study",
    "Swept",
    "System",
    "Timing",
    "Trace",
    "TraceError",
    "Usage",
    "Way",
    "Workload",
    "backend",
    "compare",
    "item_kernel",
    "load",
    "place",
    "policy_kernel",
    "process",
    "read_ops",
    "read_trace",
    "require",
    "run",
    "sweep",
    "workload",
]

_HOME = {
    "Allocator": "sim.run.allocator",
    "Backend": "sim.facts.backend",
    "BackendError": "sim.errors",
    "Builder": "sim.facts.graph",
    "Coded": "sim.facts.coded",
    "CompiledProcess": "sim.run.policies.compiled_process",
    "Comparison": "scenarios.studies.explaining.comparison",
    "Component": "sim.facts.system",
    "Location": "sim.facts.system",
    "Doubt": "sim.facts.doubt",
    "ForetraceError": "sim.errors",
    "Graph": "sim.facts.graph",
    "GraphError": "sim.errors",
    "HardwareUnavailable": "sim.errors",
    "Holds": "sim.facts.backend",
    "ItemPool": "sim.facts.items.pool",
    "ItemStream": "sim.items.item_stream",
    "Job": "sim.run.job",
    "Kind": "sim.facts.kind",
    "Label": "sim.facts.graph",
    "Member": "sim.facts.graph",
    "Metric": "sim.facts.metric",
    "Need": "sim.run.workload",
    "Needs": "sim.run.workload",
    "Ops": "sim.facts.ops",
    "Periodic": "sim.run.periodic",
    "Process": "sim.run.process",
    "Queue": "sim.facts.waiting_room",
    "Result": "sim.run.result",
    "Role": "sim.facts.kind",
    "Running": "sim.run.process",
    "Scenario": "scenarios.config.scenario",
    "ScenarioError": "sim.errors",
    "Simulation": "sim.run.simulation",
    "SimulationError": "sim.errors",
    "Spread": "sim.facts.backend",
    "StepGrid": "sim.record.step_grid",
    "Store": "sim.facts.eviction.store",
    "Study": "scenarios.studies.run.run",
    "Swept": "scenarios.studies.sweep.sweep_summary",
    "System": "sim.facts.system",
    "Timing": "sim.facts.backend",
    "Trace": "traces.trace",
    "TraceError": "sim.errors",
    "Usage": "sim.facts.backend",
    "Way": "sim.facts.way",
    "Workload": "sim.run.workload",
    "backend": "sim.facts.backend",
    "compare": "scenarios.studies.explaining.comparison",
    "item_kernel": "sim.items.item_policy",
    "load": "scenarios.config.loader",
    "place": "sim.facts.place",
    "policy_kernel": "sim.kernel.policy",
    "process": "sim.run.process",
    "read_ops": "reports.export.kept_ops",
    "read_trace": "traces.formats.autodetect",
    "require": "sim.facts.ops",
    "run": "scenarios.studies.run.run",
    "sweep": "scenarios.studies.sweep.sweep",
    "workload": "sim.run.workload",
}
_NAME = {"read_trace": "read", "run": "study"}  # where it is called otherwise


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'foretrace' has no attribute {name!r}; it has {__all__}")
    value = getattr(import_module(f".{_HOME[name]}", __name__), _NAME.get(name, name))
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return __all__
