"""Backend of each component: as the scenario binds it, or the default."""

from __future__ import annotations

from typing import Any

from ....models.compute.chain import Chain
from ....models.compute.cross_gpu_scaling import JUDGED_BEST, CrossGpuScaling, GpuModel, Way
from ....models.compute.host import Host
from ....models.compute.recorded import Recorded
from ....models.compute.roofline import Roofline
from ....models.memory.copy import Copy
from ....models.memory.host_stream import HostStream
from ....sim.errors import ScenarioError
from ....sim.facts.backend import Backend
from ....sim.facts.system import SELECTED, Component
from ....sim.setting_groups import construct_with_groups, merge_settings
from ...config.binding import Binding
from ...config.part_specs import Part
from ...config.scenario import Scenario
from ...config.settings import known_backends, plain_settings
from ...workloads.parallel import RecordedOn

CARRIED = CrossGpuScaling.registered_name
ROOFLINE = Roofline.registered_name
HOST = Host.registered_name


def backend_for_component(binding: Binding, scenario: Scenario, part: Component) -> Backend:
    """Backend of a component; settings that the binding lacks come from the component's part."""
    if binding.links:
        links = [backend_for_component(link, scenario, part) for link in binding.links]
        return Chain(links=[_of_another_gpu(link, scenario, part) for link in links])
    if binding.use == CARRIED:
        return _transferring_backend(binding, scenario, part)
    try:
        return Binding(
            binding.use,
            merge_settings(_settings_from_part(binding, scenario, part), binding.settings),
        ).make()
    except TypeError as error:
        lacking = str(error).partition("argument")[2].strip(" s:")
        raise ScenarioError(
            f"backends.{part.name}: '{binding.use}' needs {lacking}; add it there"
        ) from error
    except ValueError as error:
        raise ScenarioError(f"backends.{part.name}: {error}") from error


def _of_another_gpu(link: Backend, scenario: Scenario, part: Component) -> Backend:
    """Backend of a chain; ``recorded`` gets another error interval if another GPU recorded."""
    here = next((device for device in _recording_devices(scenario) if device), None)
    own = _gpu_model_of_machine(scenario, part)
    if part.kind == "gpu" and isinstance(link, Recorded) and here is not None and own != here:
        link.doubt = Recorded.of_another_gpu().doubt
    return link


def _settings_from_part(binding: Binding, scenario: Scenario, part: Component) -> dict[str, Any]:
    """Backend settings that the component's part supplies."""
    described = scenario.cluster
    beside = {"fabric": described.fabric.library, "switch": described.fabric.switch}
    own = described.of(part.pool).part(part.kind) if part.node else beside.get(part.kind)
    return own.settings_for(binding.use) if own is not None else {}


def _transferring_backend(binding: Binding, scenario: Scenario, part: Component) -> Backend:
    """Backend that transfers recorded times to another GPU; on the same GPU it keeps them."""
    told = binding.settings.get("recorded_on")
    device = told or next((d for d in _recording_devices(scenario) if d), None)
    if device is None:
        raise ScenarioError(
            f"backends.{part.name}: '{CARRIED}' needs to know which GPU recorded the trace; write "
            f"{{use: {CARRIED}, recorded_on: a100-sxm4-80g}}, or workload.recorded_on.device"
        )
    if device == _gpu_model_of_machine(scenario, part):
        return Recorded()
    here = recorded_settings(scenario, device)
    if here is None:
        raise ScenarioError(
            f"backends.{part.name}: no catalog knows {device}, so its times cannot be transferred; "
            f"add it to a catalog, or remove '{CARRIED}'"
        )
    way = binding.settings.get("way", JUDGED_BEST)
    return transfer_recorded_times(here, _gpu_of_machine(scenario, part), way)


def transfer_recorded_times(
    recorded: Part, target: Part, method: Way = JUDGED_BEST
) -> CrossGpuScaling:
    """Backend that transfers recorded times from one kind of GPU to another."""
    a, b = (GpuModel.of(gpu.model, gpu.settings_for(ROOFLINE)) for gpu in (recorded, target))
    return CrossGpuScaling(here=a, there=b, way=method)


def chain_for_other_gpu(target: Part, recorded: Part | None) -> Chain:
    """Chain of backends for a GPU that differs from the recording GPU.

    Recorded times are transferred for the ops where that was validated; the roofline times the
    others, and ops that it cannot time keep their recorded duration.

    Parameters
    ----------
    target : GPU to predict, with all settings that a roofline needs
    recorded : GPU that recorded the ops; None if no catalog knows it
    """
    links: list[Backend] = [
        construct_with_groups(Roofline, target.settings_for(ROOFLINE)),
        Recorded.of_another_gpu(),
    ]
    if recorded is not None:
        links.insert(0, transfer_recorded_times(recorded, target))
    return Chain(links=links)


def may_use_chain(scenario: Scenario) -> bool:
    """True if a chain may be used: one is bound, or a GPU differs from the recording GPU."""
    if any(binding.links for binding in scenario.backends.values()):
        return True
    parts = [machine.node.parts().get("gpu") for machine in scenario.cluster.machines()]
    models = {gpu.model for gpu in parts if gpu is not None}
    return any(models - {device} for device in _recording_devices(scenario))


def _gpu_of_machine(scenario: Scenario, part: Component) -> Part:
    """GPU of the machine that a component is in."""
    return scenario.cluster.of(part.pool).part("gpu") or Part("gpu")


def recorded_settings(scenario: Scenario, device: str) -> Part | None:
    """GPU part of the catalog for a recording GPU; None if the catalog does not know it."""
    entry = scenario.section("catalog").gpu.get(device)
    if entry is None:
        return None
    return Part("gpu", device, settings=plain_settings(entry, only_given=True))


def _recording_devices(scenario: Scenario) -> list[str | None]:
    """Recording device of each job's trace; None if unknown."""
    return [on.device if on else None for on in _recording_places(scenario)]


def _recording_places(scenario: Scenario) -> list[RecordedOn | None]:
    """Section ``recorded_on`` of each trace workload; None if the file does not give it."""
    works = [job.workload for job in scenario.jobs.values()]
    return [w.recorded_on for w in works if hasattr(w, "recorded_on")]


def _gpu_model_of_machine(scenario: Scenario, part: Component) -> str:
    """Model name of the GPU in the machine of a component."""
    return _gpu_of_machine(scenario, part).model


def _communication_library(part: Part, fidelity: str) -> Backend:
    """Backend of the fabric, made from the settings of the communication library."""
    name = part.backend()
    return construct_with_groups(
        known_backends()[name], {**part.settings_for(name), "fidelity": fidelity}
    )


class DefaultBackends:
    """Default backends, for components without a backend in the scenario.

    On the recording GPU, ops keep their recorded duration; on another GPU ``chain_for_other_gpu``
    times them. On another host, ops keep their recorded duration with an error interval for that.
    Host ops without a recording, of which only bytes are known, stream through the host memory.
    """

    def __init__(self, scenario: Scenario):
        self.scenario = scenario
        self.recorded = Recorded()
        self.recorded_by_another_host = Recorded.of_another_host()
        self.copy: Backend = Copy()
        if _recording_devices(scenario):
            self.copy = Chain.of(self.copy, self.recorded)
        self._chains: dict[str, Backend] = {}
        described = scenario.cluster.fabric
        library = described.library or Part("library")
        self.fabric = _communication_library(library, described.fidelity)

    def of(self, part: Component) -> Backend | None:
        """Default backend of a component; None if the scenario must bind one."""
        if part.kind == "fabric":
            return self.fabric
        if part.kind == "host":
            return self._host(part)
        if part.kind == "dma":
            return self.recorded if self._is_recorded_gpu(part) else self.copy
        if part.node and (pool := self.scenario.cluster.of(part.pool).pools.get(part.kind)):
            return pool.backend()
        if part.kind == "gpu":
            if not _recording_devices(self.scenario):
                return None  # nothing was recorded: the scenario must bind a backend
            return self.recorded if self._is_recorded_gpu(part) else self._chain_for_other_gpu(part)
        return None

    def _host(self, part: Component) -> Backend:
        """Backend of a host: recorded durations; without a recording also a model of threads.

        Dispatch costs from a catalog were measured on another machine, costs that the user writes
        on this one.
        """
        if _recording_devices(self.scenario):
            own = self._is_recorded_host(part)
            return self.recorded if own else self.recorded_by_another_host
        settings = _settings_from_part(Binding(HOST), self.scenario, part)
        costs = {name: settings.get(name) for name in ("operator", "exchange")}
        (path,) = (m.path for m in self.scenario.cluster.machines() if m.pool == part.pool)
        said = self.scenario.origins.get(f"cluster.{path}.host.operator")
        thread = Host.with_dispatch_costs(
            **costs, measured_here=said is not None and said.source is None
        )
        return Chain.of(self.recorded, thread, HostStream())

    def _chain_for_other_gpu(self, part: Component) -> Backend:
        """Chain for a GPU other than the recording one; one chain per kind of machine."""
        if part.pool not in self._chains:
            device = self._other_recording_device(part)
            if device is None:
                raise ScenarioError(
                    "workload.recorded_on.device: the GPU that recorded the trace is unknown; "
                    f"write it, for example {{device: "
                    f"{_gpu_model_of_machine(self.scenario, part) or 'h100'}}}"
                )
            if not self._roofline_can_predict(part):
                self._refuse_unpredictable_gpu(part, device)
            here = recorded_settings(self.scenario, device)
            self._chains[part.pool] = chain_for_other_gpu(
                _gpu_of_machine(self.scenario, part), here
            )
        return self._chains[part.pool]

    def _roofline_can_predict(self, part: Component) -> bool:
        """True if a GPU has the settings that a roofline needs."""
        return "bandwidth" in _settings_from_part(Binding(ROOFLINE), self.scenario, part)

    def _refuse_unpredictable_gpu(self, part: Component, device: str) -> None:
        whose = f"{SELECTED}{part.pool}" if part.pool else "node*"
        wanted = _gpu_model_of_machine(self.scenario, part) or "another GPU"
        raise ScenarioError(
            f"backends: the trace was recorded on {device}, and the cluster has {wanted}, whose "
            "bandwidth is unknown; describe it under cluster.node.gpu, or bind a backend, for "
            f"example {{'{whose}.gpu*': {{use: table, file: FILE}}}}"
        )

    def _other_recording_device(self, part: Component) -> str | None:
        """First recording GPU that differs from the given one; the first of all if none differs."""
        found = _recording_devices(self.scenario)
        own = _gpu_model_of_machine(self.scenario, part)
        return next((d for d in found if d != own), found[0] if found else None)

    def _is_recorded_host(self, part: Component) -> bool:
        """True if a host recorded all traces; if unknown, a host whose GPU recorded them counts."""
        told = {on.host for on in _recording_places(self.scenario) if on and on.host}
        if not told:
            devices = {device for device in _recording_devices(self.scenario) if device}
            return devices <= {_gpu_model_of_machine(self.scenario, part)}
        own = self.scenario.cluster.of(part.pool).part("host")
        return told == {own.model if own else ""}

    def _is_recorded_gpu(self, part: Component) -> bool:
        return self._other_recording_device(part) == _gpu_model_of_machine(self.scenario, part)
