"""Media of the section ``media``: which components use a medium other than max-min sharing."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping

from ....sim.engine_api.medium_api import Medium
from ....sim.errors import ScenarioError
from ....sim.facts.system import System
from ....sim.run.simulation import Simulation
from ...config.binding import entry_for_component
from ...config.choice import Choice
from ...config.scenario import Scenario
from ...config.sections.media import MAX_MIN, make_medium


def build_media(scenario: Scenario, machine: System) -> dict[str, Medium]:
    """Medium of each component that does not use max-min sharing, by component name.

    Raises
    ------
    ScenarioError
        A name matches no component with a rate, or there is more than one medium.
    """
    told: Mapping[str, Choice] = scenario.section("media")
    plugged = [choice for choice in told.values() if choice.use != MAX_MIN]
    chosen = list({repr(choice.to_dict()): choice for choice in plugged}.values())
    if len(chosen) > 1:
        both = ", ".join(repr(choice.use) for choice in chosen)
        raise ScenarioError(
            f"{scenario.message_prefix('media')}media: {both} are two different media, but a "
            "run can have only one besides max-min; write the same medium at every name"
        )
    for glob in told:
        parts = [machine.components[c] for c in machine.match(glob)]
        if parts and all(part.rate is None for part in parts):
            raise ScenarioError(
                f"{scenario.message_prefix(f'media.{glob}')}media: '{glob}' matches no component "
                f"with a rate ({parts[0].name} is a {parts[0].kind}); name NICs, links, ports or "
                "memories"
            )
    if not chosen:
        return {}
    only, names = make_medium(chosen[0]), machine.index
    found: dict[str, Medium] = {}
    for part in machine.components:
        choice = entry_for_component(told, part, names)
        if part.rate is not None and choice is not None and choice.use != MAX_MIN:
            found[part.name] = only
    return found


def components_by_medium(simulation: Simulation) -> dict[str, dict[str, int]]:
    """Number of components by medium and by name pattern (digits as ``*``).

    Empty if all components use max-min sharing.
    """
    parts = simulation.parts
    if parts.medium is None:
        return {}
    counted: dict[str, Counter[str]] = {parts.medium.name: Counter(), MAX_MIN: Counter()}
    for part, inside in zip(simulation.system.components, parts.plugged.tolist(), strict=True):
        if part.rate is not None:
            name = parts.medium.name if inside else MAX_MIN
            counted[name][re.sub(r"\d+", "*", part.name)] += 1
    return {name: dict(counts) for name, counts in counted.items()}
