"""The machine of a coupled run: some of its components are devices."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from ....hil.coupling.coupled import Coupling
from ....hil.coupling.journal import JournalEntry, JournalWriter


@dataclass(frozen=True)
class CoupledDevices:
    """A machine with devices in it, and what they answer.

    Parameters
    ----------
    coupling : the machine
    writers : by component, with the journal of the last run
    """

    coupling: Coupling
    writers: Mapping[str, JournalWriter]

    @property
    def journal(self) -> list[JournalEntry]:
        """Every answer since it was made, component by component."""
        return [e for w in self.writers.values() for e in w.entries]
