"""``hil``: components that are replaced by real devices, and how these are used."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, Literal

from pydantic import Discriminator, Field, Tag, model_validator

from ....sim.units import Duration, Seconds
from ..problems import did_you_mean_text
from ..schema import Many, Section, register, validation_error

Positive = Annotated[int, Field(ge=1)]


class UncrossedPart(Section):
    """Component that a sample includes but simulated ops do not cross; its time is subtracted."""

    time: Annotated[Seconds, Field(ge=0)]
    """Time subtracted from each sample."""
    error: Annotated[Seconds, Field(ge=0)]
    """Error of that time, in either direction."""
    source: str = ""
    """Source of that time."""


class TransferPeer(Section):
    """The other end of transfers."""

    agent: str = ""
    """Name of the peer's agent in your list of agents; by default the agent of the swap. A peer on
    another host needs an agent on that host."""
    device: str = ""
    """Device name, as the driver calls it."""


def _one_or_many(value: object) -> str:
    """Tag that tells pydantic whether a value is a list or single; error paths leave it out."""
    return "[many]" if isinstance(value, list | tuple) else "[one]"


Peers = Annotated[
    Annotated[TransferPeer, Tag("[one]")] | Annotated[Many[TransferPeer], Tag("[many]")],
    Discriminator(_one_or_many),
]


class SwappedOps(Section):
    """How ops are run on a device."""

    context: Literal["warm", "cold", "after"] = "warm"
    """State that is restored before each op: warm caches, cold caches, or the preceding ops."""
    preceding: Positive = 1
    """With ``context: after``: number of preceding ops that are run again."""
    max_in_flight: Positive | None = None
    """Largest set of concurrent ops given to a device that measures sets of ops."""
    others: Literal["fail", "model"] = "fail"
    """What happens to ops that the driver does not support: an error, or the model times them."""


class SwapSection(Section):
    """A component that is replaced by a real device."""

    renamed_settings: ClassVar[Mapping[str, str]] = {n: f"ops.{n}" for n in SwappedOps.model_fields}

    component: str
    """Component that is real: ``node0.nic0``, ``node0.gpu0``, ``node0.cxl``, or ``fabric``."""
    driver: str
    """Driver that measures it: a name from ``foretrace drivers``, or a driver of your own that the
    agent loads; ``recorded`` for a recording."""
    agent: str = ""
    """Name of an agent in your list of agents, not an address; by default this machine."""
    device: str = ""
    """Device name, as the driver calls it; by default the first device."""
    peer: Peers | None = None
    """The other end of transfers, if there is one; a list if several hosts send to this one."""
    recording: str | None = None
    """Recording file, for ``driver: recorded`` and for ``if_missing: recorded``."""
    if_missing: Literal["fail", "recorded"] = "fail"
    """What to do if the device is missing: an error, or a recording. The recording must be of the
    same driver, device, settings, metric and kind of clock. A model never replaces a device."""
    partial: bool = False
    """True to accept a recording that ended early."""
    options: dict[str, Any] = Field(default_factory=dict)
    """Further options for the driver."""
    covers: Many[str] = ()
    """Components that a sample includes, in addition to those that the driver declares."""
    subtract: dict[str, UncrossedPart] = Field(default_factory=dict)
    """Times to subtract from each sample, by component that the simulated ops do not cross."""
    ops: SwappedOps = Field(default_factory=SwappedOps)
    """How ops are run on the device."""

    @model_validator(mode="after")
    def _has_driver(self) -> SwapSection:
        """Check that the driver exists; a driver that only a remote agent may have is accepted."""
        from ....hil.agent.declared_drivers import agent_driver_names, agent_has_driver

        if agent_has_driver(self.driver, self.agent) is False:
            cure = did_you_mean_text(self.driver, agent_driver_names(self.agent))
            message = f"no driver named '{self.driver}'{cure}"
            raise validation_error("value", message, "driver", self.driver)
        return self


class MeasuredJob(Section):
    """Measured times of the real job."""

    iteration_time: Annotated[Duration, Field(gt=0)]
    """Median step time of the real job."""
    low: Annotated[Duration, Field(gt=0)] | None = None
    """Median step time of the fastest process start."""
    high: Annotated[Duration, Field(gt=0)] | None = None
    """Median step time of the slowest process start."""
    source: str = ""
    """Where and when it was measured."""

    @property
    def value(self) -> float:
        """Measured median step time in s, to which the simulated step time is compared."""
        return self.iteration_time


class HilSection(Section):
    """Hardware in the loop: components that are replaced by real devices."""

    mode: Literal["replay", "coupled"] = "replay"
    """``replay``: run the ops on the device and compare with the model. ``coupled``: measured times
    drive the simulation."""
    swap: Many[SwapSection] = ()
    """Components that are replaced by real devices."""
    repeat: Positive = 5
    """Replay: least number of process starts per device. A coupled run is repeated by replicas."""
    warm_up: Annotated[Duration, Field(ge=0)] = 0.05
    """Coupled: time for which the ops are run before measuring. Replay warms up until the times
    are stable."""
    time_limit: Annotated[Duration, Field(gt=0)] = 600.0
    """Replay: limit of the total measuring time; samples up to then are kept. Coupled: limit of one
    measurement."""
    busy: Annotated[float, Field(ge=0)] = 0.5
    """Replay: number of cores that other programs may use; above it, a local device counts as
    busy."""
    keep_recording: str | None = None
    """Replay: folder for the recordings, one per component."""
    answer: Literal["sequence", "median", "draw"] = "median"
    """Coupled: which sample a recording returns. Replay uses medians of process starts."""
    mixed_clocks: Literal["demonstration"] | None = None
    """Allows devices with different clocks in one run; no accuracy is reported then."""
    journal: str | None = None
    """Journal of an earlier coupled run, used in place of the devices."""
    real: MeasuredJob | None = None
    """Measured times of the real job, for the composition error."""


register("hil", HilSection, None, files=("keep_recording", "journal", "swap.*.recording"))
