"""Backends of components: as a scenario binds them, and who answers where it binds none."""

from __future__ import annotations

from typing import Any

from ....models.compute.carried import Carried, GpuModel
from ....models.compute.chain import Chain
from ....models.compute.recorded import Recorded
from ....models.compute.roofline import Roofline
from ....models.memory.copy import Copy
from ....models.network.collectives import Fabric as Collectives
from ....models.network.gloo_fabric import Gloo
from ....sim.backend import Backend
from ....sim.errors import ScenarioError
from ....sim.system import SELECTED, Component
from ...config.binding import Binding
from ...config.part_specs import Part
from ...config.scenario import Scenario

CARRIED = Carried.registered_name
ROOFLINE = Roofline.registered_name


def answerer(binding: Binding, scenario: Scenario, part: Component) -> Backend:
    """A backend; what the binding does not set, its part's settings do."""
    if binding.links:
        return Chain(links=[answerer(link, scenario, part) for link in binding.links])
    if binding.use == CARRIED:
        return _carried(binding, scenario, part)
    try:
        return Binding(binding.use, {**_known(binding, scenario, part), **binding.settings}).make()
    except TypeError as error:
        lacking = str(error).partition("argument")[2].strip(" s:")
        raise ScenarioError(
            f"backends.{part.name}: '{binding.use}' needs {lacking}; add it there"
        ) from error
    except ValueError as error:
        raise ScenarioError(f"backends.{part.name}: {error}") from error


def _known(binding: Binding, scenario: Scenario, part: Component) -> dict[str, Any]:
    """Settings of a backend that the part says for which it answers."""
    described = scenario.cluster
    beside = {"fabric": described.fabric.library, "switch": described.fabric.switch}
    own = described.of(part.pool).part(part.kind) if part.node else beside.get(part.kind)
    return own.of(binding.use) if own is not None else {}


def _carried(binding: Binding, scenario: Scenario, part: Component) -> Backend:
    """Recorded times of another GPU, with both rooflines; of the same GPU, as they are."""
    told = binding.settings.get("recorded_on")
    device = told or next((d for d in _recorded_on(scenario) if d), None)
    if device is None:
        raise ScenarioError(
            f"backends.{part.name}: '{CARRIED}' needs the GPU that recorded the trace; write "
            f"{{use: {CARRIED}, recorded_on: a100-sxm4-80g}}, or workload.recorded_on.device"
        )
    if device == _model(scenario, part):
        return Recorded()
    here = recorded_settings(scenario, device)
    if here is None:
        raise ScenarioError(
            f"backends.{part.name}: nobody says what {device} can do, so nothing can be carried "
            f"from it; add it to a catalog, or take '{CARRIED}' out"
        )
    return carried(here, _gpu(scenario, part))


def carried(here: Part, there: Part) -> Carried:
    """Recorded times of one kind of GPU, on another."""
    a, b = (GpuModel.of(gpu.model, gpu.of(ROOFLINE)) for gpu in (here, there))
    return Carried(here=a, there=b)


def gpu_chain(there: Part, here: Part | None) -> Chain:
    """Chain for a GPU that is not the one of the recording.

    Recorded times are carried where that was judged; the roofline answers the rest, and what it
    cannot answer lasts as recorded.

    Parameters
    ----------
    there : with all that a roofline needs
    here : that recorded the ops; None where no catalog knows it
    """
    links: list[Backend] = [Roofline(**there.of(ROOFLINE)), Recorded()]
    return Chain(links=[*((carried(here, there),) if here is not None else ()), *links])


def may_chain(scenario: Scenario) -> bool:
    """Whether a chain of backends is in use: one is bound, or a GPU differs from the recorded."""
    if any(binding.links for binding in scenario.backends.values()):
        return True
    parts = [machine.node.parts().get("gpu") for machine in scenario.cluster.machines()]
    models = {gpu.model for gpu in parts if gpu is not None}
    return any(models - {device} for device in _recorded_on(scenario))


def _gpu(scenario: Scenario, part: Component) -> Part:
    """The GPU of the machine that a component is in."""
    return scenario.cluster.of(part.pool).part("gpu") or Part("gpu")


def recorded_settings(scenario: Scenario, device: str) -> Part | None:
    """What the catalog says of a GPU that recorded a trace; None where it does not know it."""
    entry = scenario.section("catalog").gpu.get(device)
    if entry is None:
        return None
    return Part("gpu", device, settings={k: v for k, v in entry if v is not None})


def _recorded_on(scenario: Scenario) -> list[str | None]:
    """The device of each trace; None where nobody says it."""
    works = [job.workload for job in scenario.jobs.values()]
    told = [w.recorded_on for w in works if hasattr(w, "recorded_on")]
    return [on.device if on else None for on in told]


def _model(scenario: Scenario, part: Component) -> str:
    """Model of the GPU in the machine of a component."""
    return _gpu(scenario, part).model


def _library(part: Part | None, fidelity: str) -> Collectives:
    """Communication library: gloo where the cost of its messages is known."""
    known = part.of("gloo") if part is not None else {}
    if "message" in known:
        return Gloo(**{**known, "fidelity": fidelity})
    return Collectives(**{**(part.of("fabric") if part else {}), "fidelity": fidelity})


class Defaults:
    """Backends of components for which the scenario names none.

    On the GPU of the recording all lasts as recorded; on another ``gpu_chain`` answers.
    """

    def __init__(self, scenario: Scenario):
        self.scenario = scenario
        self.recorded = Recorded()
        self.copy: Backend = Copy()
        if _recorded_on(scenario):
            self.copy = Chain.of(self.copy, self.recorded)
        self._chains: dict[str, Backend] = {}
        described = scenario.cluster.fabric
        self.fabric = _library(described.library, described.fidelity)

    def of(self, part: Component) -> Backend | None:
        """Backend of a component; None where somebody else has to name one."""
        if part.kind == "fabric":
            return self.fabric
        if part.kind == "host":
            return self.recorded
        if part.kind == "dma":
            return self.recorded if self._as_recorded(part) else self.copy
        if part.kind == "gpu":
            if not _recorded_on(self.scenario):
                return None  # nothing was recorded; whoever needs it binds it
            return self.recorded if self._as_recorded(part) else self._chain(part)
        return None

    def _chain(self, part: Component) -> Backend:
        """Chain for a GPU that is not the one of the recording, the same for all of its pool."""
        if part.pool not in self._chains:
            device = self._device(part)
            if device is None:
                raise ScenarioError(
                    "workload.recorded_on.device: nobody says what the trace was recorded on; "
                    f"write it, for example {{device: {_model(self.scenario, part) or 'h100'}}}"
                )
            if not self._predictable(part):
                self._refuse(part, device)
            here = recorded_settings(self.scenario, device)
            self._chains[part.pool] = gpu_chain(_gpu(self.scenario, part), here)
        return self._chains[part.pool]

    def _predictable(self, part: Component) -> bool:
        """Whether a GPU has what a roofline needs."""
        return "bandwidth" in _known(Binding(ROOFLINE), self.scenario, part)

    def _refuse(self, part: Component, device: str) -> None:
        whose = f"{SELECTED}{part.pool}" if part.pool else "node*"
        wanted = _model(self.scenario, part) or "another GPU"
        raise ScenarioError(
            f"backends: the trace was recorded on {device}, the cluster has {wanted}, of which "
            "nobody says the bandwidth; say what it can do (cluster.node.gpu), or who predicts "
            f"it, for example {{'{whose}.gpu*': {{use: table, file: FILE}}}}"
        )

    def _device(self, part: Component) -> str | None:
        """The device of the first trace that was recorded on another one than a component is."""
        found = _recorded_on(self.scenario)
        own = _model(self.scenario, part)
        return next((d for d in found if d != own), found[0] if found else None)

    def _as_recorded(self, part: Component) -> bool:
        return self._device(part) == _model(self.scenario, part)
