"""Finding about a machine's hardware or software."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

State = Literal["ok", "off", "bad"]


@dataclass(frozen=True)
class Finding:
    """Finding about a device, or about something that a device needs.

    Parameters
    ----------
    name : name of the device, or of the software that a device needs
    state : ``ok``; ``off`` (not present); ``bad`` (present, but something is missing or wrong)
    observation : text that describes what was observed
    command : command to type next; "" if there is nothing to do
    """

    name: str
    state: State
    observation: str
    command: str = ""
