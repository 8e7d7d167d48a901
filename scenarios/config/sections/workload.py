"""``workload``: what is run.  ``type`` picks one of the registered kinds; ``trace:`` implies it."""

from __future__ import annotations

from typing import Annotated, Any, ClassVar, Literal, Union

from pydantic import Field, PlainValidator, ValidationInfo

from ....sim.units import Chunk
from ..schema import REQUIRED, Section, refusal, register

Positive = Annotated[int, Field(ge=1)]


class Workload(Section):
    """What is run; a subclass for each ``type``, registered by being defined."""

    kinds: ClassVar[dict[str, type[Workload]]] = {}

    @classmethod
    def __pydantic_init_subclass__(cls, **kwargs: Any) -> None:
        """Register under the one value of ``type``."""
        (kind,) = cls.model_fields["type"].annotation.__args__  # type: ignore[union-attr]
        cls.kinds[kind] = cls


class Parallel(Section):
    """How the ranks share a model."""

    tensor: Positive = 1
    """Ranks that share each layer."""
    pipeline: Positive = 1
    """Ranks in a row, a block of layers each."""
    data: Positive = 1
    """Copies of the model, each with its own samples."""
    expert: Positive = 1
    """Ranks that share the experts of a layer."""

    @property
    def ranks(self) -> int:
        """Ranks in all; experts are spread over the data-parallel ones."""
        return self.tensor * self.pipeline * self.data


class RecordedSection(Section):
    """Where a trace was recorded."""

    device: str | None = None
    """Catalog name of the GPU or host that ran it."""
    nodes: Positive | None = None
    """Machines that took part."""
    parallel: Parallel | None = None
    """How its ranks shared the model."""


class Scale(Section):
    """What the trace is resized to."""

    parallel: Parallel
    """Groups of the size wanted; collectives are re-sized to them."""
    bucket: Annotated[Chunk, Field(gt=0)] | None = None
    """Cap of DDP's gradient buckets (``bucket_cap_mb``), where one process was recorded; unsaid,
    DDP's own: 25 MiB, the first 1 MiB."""


class Iterations(Section):
    """Which iterations count."""

    warm_up: Annotated[int, Field(ge=0)] = 0
    """Left out at the start."""
    measure: Positive | None = None
    """Counted after that; all there are unless said."""


class TraceWorkload(Workload):
    """A recorded trace, replayed."""

    type: Literal["trace"] = "trace"
    """This kind of workload; implied by ``trace``."""
    trace: str
    """File, glob with one file per rank, or ``foretrace:NAME`` for a bundled one."""
    format: Literal["native", "kineto", "chakra"] | None = None
    """How the file is written; recognised unless said."""
    recorded_on: RecordedSection | None = None
    """Where it was recorded."""
    starts: str | None = None
    """Recordings of several process starts of the same: a glob of folders, or ``foretrace:NAME``.

    Times become those of a typical untraced step, and replicas differ as the starts do.
    """
    scale_to: Scale | None = None
    """What it is resized to; as recorded unless said."""
    iterations: Iterations = Iterations()
    """Which iterations count."""
    missing_ranks: Literal["refuse", "like_recorded", "recorded_waits"] = "refuse"
    """What stands for ranks that were not recorded."""
    serialise: bool = False
    """Accept a trace without dependencies: every op after the one before it."""
    tokens_per_iteration: Annotated[int, Field(ge=1)] | None = None
    """Of the whole job, as recorded; scales with the data-parallel ranks."""


def pick(data: Any, info: ValidationInfo) -> Workload:
    """The workload of the ``type`` that is named; a trace unless said."""
    if not isinstance(data, dict):
        raise refusal("mapping", "a workload has keys; write it like {trace: FILE}", value=data)
    kind = data.get("type", "trace")
    if kind not in Workload.kinds:
        message = f"no workload type '{kind}'; there is: {', '.join(Workload.kinds)}"
        raise refusal("not-one-of", message, "type", kind)
    return Workload.kinds[kind].model_validate(data, context=info.context)


def _any() -> Any:
    """A workload of any type that is registered by now."""
    kinds: Any = Union[tuple(Workload.kinds.values())]  # noqa: UP007  only known now
    return Annotated[Workload, PlainValidator(pick, json_schema_input_type=kinds)]


register(
    "workload",
    _any,
    REQUIRED,
    help="What is run.",
    files=("trace", "starts"),
)
