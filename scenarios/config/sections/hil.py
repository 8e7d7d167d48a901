"""``hil``: which components are real, and what is done with them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, Literal

from pydantic import Discriminator, Field, Tag, model_validator

from ....sim.units import Duration, Seconds
from ..problems import did_you_mean_text
from ..schema import Many, Section, register, validation_error

Positive = Annotated[int, Field(ge=1)]


class UncrossedPart(Section):
    """A part of a sample that an op does not cross."""

    time: Annotated[Seconds, Field(ge=0)]
    """Taken off each sample."""
    error: Annotated[Seconds, Field(ge=0)]
    """Of that time, either way."""
    source: str = ""
    """Where that is from."""


class TransferPeer(Section):
    """The other end of a transfer."""

    agent: str = ""
    """A name from your own list of agents; that of the swap unless said. Of another host: its own
    agent there, which is asked beside."""
    device: str = ""
    """As its driver calls it."""


def _one_or_many(value: object) -> str:
    """Which of two shapes a value has; no part of its place in a file."""
    return "[many]" if isinstance(value, list | tuple) else "[one]"


Peers = Annotated[
    Annotated[TransferPeer, Tag("[one]")] | Annotated[Many[TransferPeer], Tag("[many]")],
    Discriminator(_one_or_many),
]


class SwappedOps(Section):
    """How ops are given to a device."""

    context: Literal["warm", "cold", "after"] = "warm"
    """What is restored before each op."""
    preceding: Positive = 1
    """With ``after``: how many ops before it are done again."""
    max_in_flight: Positive | None = None
    """Most ops that a device which measures sets of ops is given at once."""
    others: Literal["fail", "model"] = "fail"
    """Who answers for ops that the driver cannot do."""


class SwapSection(Section):
    """One component that is real."""

    renamed_settings: ClassVar[Mapping[str, str]] = {n: f"ops.{n}" for n in SwappedOps.model_fields}

    component: str
    """``node0.nic0``, ``node0.gpu0``, ``node0.cxl``, or ``fabric`` for the whole network."""
    driver: str
    """Who measures it: a name of ``foretrace drivers``, or of a file that the agent loads;
    ``recorded`` for a recording."""
    agent: str = ""
    """A name from your own list of agents, never an address; this machine unless said."""
    device: str = ""
    """As the driver calls it; its first one unless said."""
    peer: Peers | None = None
    """The other end, where there is one; a list where several hosts send to this one."""
    recording: str | None = None
    """A file, for ``recorded`` and for ``if_missing: recorded``."""
    if_missing: Literal["fail", "recorded"] = "fail"
    """What to do without the device; never the model. A recording has to be of the same driver,
    device, settings and metric, and of a clock of the same kind."""
    partial: bool = False
    """A recording that ended early may answer too."""
    options: dict[str, Any] = Field(default_factory=dict)
    """What the driver is opened with besides."""
    covers: Many[str] = ()
    """Components inside a sample, besides those that the driver names."""
    subtract: dict[str, UncrossedPart] = Field(default_factory=dict)
    """By component: parts of a sample that ops of this scenario do not cross."""
    ops: SwappedOps = Field(default_factory=SwappedOps)
    """How ops are given to the device."""

    @model_validator(mode="after")
    def _has_driver(self) -> SwapSection:
        """A name that nobody has is refused; one that only a far agent may have is not."""
        from ....hil.agent.declared_drivers import agent_driver_names, agent_has_driver

        if agent_has_driver(self.driver, self.agent) is False:
            cure = did_you_mean_text(self.driver, agent_driver_names(self.agent))
            message = f"no driver named '{self.driver}'{cure}"
            raise validation_error("value", message, "driver", self.driver)
        return self


class MeasuredJob(Section):
    """What the real job took, measured as a whole."""

    iteration_time: Annotated[Duration, Field(gt=0)]
    """Median of its steps."""
    low: Annotated[Duration, Field(gt=0)] | None = None
    """The quickest start's median."""
    high: Annotated[Duration, Field(gt=0)] | None = None
    """The slowest start's median."""
    source: str = ""
    """Where and when."""

    @property
    def value(self) -> float:
        """What is compared with the answer of the run, SI."""
        return self.iteration_time


class HilSection(Section):
    """Hardware in the loop."""

    mode: Literal["replay", "coupled"] = "replay"
    """replay: do the ops of a run on the device, then compare; coupled: its answers drive time."""
    swap: Many[SwapSection] = ()
    """Components that are real."""
    repeat: Positive = 5
    """Replay: process starts of each device, at least. A coupled run is repeated by replicas."""
    warm_up: Annotated[Duration, Field(ge=0)] = 0.05
    """Coupled: its ops are done for so long before anything counts. Replay warms up until the
    times settle."""
    time_limit: Annotated[Duration, Field(gt=0)] = 600.0
    """Replay: of the measuring; what was measured by then is kept. Coupled: of one answer."""
    busy: Annotated[float, Field(ge=0)] = 0.5
    """Replay: cores of this machine that others may use; with more, a device here is busy."""
    keep_recording: str | None = None
    """Replay: a folder for what was measured, a recording for each component."""
    answer: Literal["sequence", "median", "draw"] = "median"
    """Coupled: which of its samples a recording answers with. Replay takes medians of starts."""
    mixed_clocks: Literal["demonstration"] | None = None
    """Lets devices of different clocks drive one run, of which no accuracy is told."""
    journal: str | None = None
    """A journal of an earlier coupled run, which answers in place of the devices."""
    real: MeasuredJob | None = None
    """The real job, for the composition error."""


register("hil", HilSection, None, files=("keep_recording", "journal", "swap.*.recording"))
