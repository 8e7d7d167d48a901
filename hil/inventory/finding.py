"""A finding about a machine's hardware."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

State = Literal["ok", "off", "bad"]


@dataclass(frozen=True)
class Finding:
    """A finding: what was seen of a device or of what it needs.

    Parameters
    ----------
    name : of the device, or of what it needs
    state : ``ok``; ``off``: not here; ``bad``: here, and something stands in its way
    observation : what was seen
    command : command to type; "" where nothing is to be done
    """

    name: str
    state: State
    observation: str
    command: str = ""
