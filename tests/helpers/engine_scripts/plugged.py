"""Random scripts in which some components are in a medium beside max-min."""

from __future__ import annotations

import random
from typing import Any

from engine_scripts.random_scripts import random_script
from engine_scripts.script import Script
from foretrace.sim.engine_api.engine_literal import LiteralOp
from foretrace.sim.engine_api.medium_api import Medium


def plugged_script(kind: str, seed: int, medium: Medium) -> Script:
    """The random script of that kind and seed, in which some or all rates are in a medium.

    An op keeps what it uses of the medium of its first component; once in a while all, which is
    refused.
    """
    script, r = random_script(kind, seed), random.Random(f"plugged {kind} {seed}")
    share = r.choice([1.0, 1.0, 0.6])
    plugged = tuple(rate >= 0 and r.random() < share for rate in script.rates)

    def apart(what: Any) -> Any:
        if isinstance(what, LiteralOp):
            ends = what.usage[:1]
            first = plugged[ends[0][0]] if ends and 0 <= ends[0][0] < len(plugged) else False
            keeps = r.random() < 0.01
            one = [u for u in what.usage if keeps or plugged[u[0] % len(plugged)] == first]
            return what._replace(usage=tuple(one))
        return tuple(map(apart, what)) if type(what) is tuple else what

    return script._replace(
        graphs=apart(script.graphs),
        actors=apart(script.actors),
        prepared=apart(script.prepared),
        plugged=plugged if any(plugged) else (),
        medium=medium if any(plugged) else None,
    )
