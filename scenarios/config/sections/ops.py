"""``ops``: rules that name ops of the workload, and say what is to be otherwise."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import Field, model_validator

from ....sim.facts.op_rules import OpFilter, OpRule
from ....sim.units import Duration
from ..schema import Many, Section, register, validation_error

ACTIONS = ("time", "scale", "stream", "rank", "remove")


class OpMatchSection(Section):
    """Ops that are meant: names or globs; all that is given has to fit."""

    name: str | None = None
    """As it is called: ``aten::addmm``, ``DataLoader*``."""
    module: str | None = None
    """Of the model, where the trace has it: ``block.3.*``."""
    signature: str | None = None
    """Kind, name, types and shapes: ``compute:mm(*)``."""
    kind: str | None = None
    """compute, host, copy, send, recv, collective, delay or gap."""
    source: str | None = None
    """File and line that it comes from: ``train.py*``."""

    @model_validator(mode="after")
    def _names_something(self) -> OpMatchSection:
        if not OpFilter(**dict(self)).criteria():
            keys = ", ".join(type(self).model_fields)
            raise validation_error("missing-key", f"'where' says nothing; give one of {keys}")
        return self


class OpRuleSection(Section):
    """A rule for the ops that it names."""

    where: OpMatchSection
    """Which ops are meant; fitting none is an error."""
    time: Annotated[Duration, Field(ge=0)] | None = None
    """What each of them takes, whatever is bound."""
    scale: Annotated[float, Field(ge=0)] | None = None
    """How many times as long each of them takes."""
    stream: Annotated[int, Field(ge=0)] | None = None
    """Stream of its rank on which each goes on; what came next on its own does not wait for it."""
    rank: Annotated[int, Field(ge=0)] | None = None
    """Rank on which each goes on."""
    remove: bool = False
    """Leave them out; what came after waits for what came before."""

    @model_validator(mode="after")
    def _does_one_thing(self) -> OpRuleSection:
        """A rule that does nothing, or two things that cannot both be, is refused."""
        said = [key for key in ACTIONS if not any(getattr(self, key) is n for n in (None, False))]
        if not said:
            raise validation_error(
                "missing-key", f"a rule does nothing; give one of {', '.join(ACTIONS)}"
            )
        if len(said) > 1 and "remove" in said:
            message = f"'remove' and '{said[0]}' cannot both be; take one out"
            raise validation_error("two-forms", message, said[0], getattr(self, said[0]))
        if {"time", "scale"} <= {*said}:
            message = "'time' and 'scale' cannot both be; take one out"
            raise validation_error("two-forms", message, "scale", self.scale)
        return self

    def rule(self) -> OpRule:
        """The rule itself."""
        told: dict[str, Any] = {key: getattr(self, key) for key in ACTIONS}
        return OpRule(OpFilter(**dict(self.where)), **told)


register(
    "ops",
    Many[OpRuleSection],
    (),
    help="Ops of the workload that are otherwise, by name: their time, stream, rank, or none.",
)
