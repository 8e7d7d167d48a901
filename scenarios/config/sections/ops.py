"""``ops``: rules that select ops of the workload and change them."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import Field, model_validator

from ....sim.facts.op_rules import OpFilter, OpRule
from ....sim.units import Duration
from ..schema import Many, Section, register, validation_error

ACTIONS = ("time", "scale", "stream", "rank", "remove")


class OpMatchSection(Section):
    """Selection of ops by names or globs; an op must match all given keys."""

    name: str | None = None
    """Name of the op: ``aten::addmm``, ``DataLoader*``."""
    module: str | None = None
    """Module of the model, if the trace has it: ``block.3.*``."""
    signature: str | None = None
    """Kind, name, types and shapes: ``compute:mm(*)``."""
    kind: str | None = None
    """Kind of op: compute, host, copy, send, recv, collective, delay or gap."""
    source: str | None = None
    """Source file and line of the op: ``train.py*``."""

    @model_validator(mode="after")
    def _names_something(self) -> OpMatchSection:
        if not OpFilter(**dict(self)).criteria():
            keys = ", ".join(type(self).model_fields)
            raise validation_error("missing-key", f"'where' is empty; write one of {keys}")
        return self


class OpRuleSection(Section):
    """A rule that changes the ops that it selects."""

    where: OpMatchSection
    """Selects the ops; it is an error if no op matches."""
    time: Annotated[Duration, Field(ge=0)] | None = None
    """Duration of each op, whatever its backend says."""
    scale: Annotated[float, Field(ge=0)] | None = None
    """Factor on the duration of each op."""
    stream: Annotated[int, Field(ge=0)] | None = None
    """Stream of its rank to which each op moves; later ops of its old stream do not wait for it."""
    rank: Annotated[int, Field(ge=0)] | None = None
    """Rank to which each op moves."""
    remove: bool = False
    """True to remove the ops; their successors then wait for their predecessors."""

    @model_validator(mode="after")
    def _does_one_thing(self) -> OpRuleSection:
        """Check that a rule changes something and has no contradictory changes."""
        said = [key for key in ACTIONS if not any(getattr(self, key) is n for n in (None, False))]
        if not said:
            raise validation_error(
                "missing-key", f"the rule changes nothing; write one of {', '.join(ACTIONS)}"
            )
        if len(said) > 1 and "remove" in said:
            message = f"'remove' and '{said[0]}' exclude each other; keep one"
            raise validation_error("two-forms", message, said[0], getattr(self, said[0]))
        if {"time", "scale"} <= {*said}:
            message = "'time' and 'scale' exclude each other; keep one"
            raise validation_error("two-forms", message, "scale", self.scale)
        return self

    def rule(self) -> OpRule:
        """Convert the section to the rule that changes a graph."""
        told: dict[str, Any] = {key: getattr(self, key) for key in ACTIONS}
        return OpRule(OpFilter(**dict(self.where)), **told)


register(
    "ops",
    Many[OpRuleSection],
    (),
    help="Rules that change ops of the workload: their time, stream or rank, or remove them.",
)
