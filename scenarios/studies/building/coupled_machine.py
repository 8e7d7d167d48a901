"""System of a coupled run, in which real devices replace some components."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from ....hil.coupling.coupled import Coupling
from ....hil.coupling.journal import JournalEntry, JournalWriter


@dataclass(frozen=True)
class CoupledDevices:
    """A system with real devices, and the journal of their measurements.

    Parameters
    ----------
    coupling : system and backends with the devices in place
    writers : journal writer of the last run, by component
    """

    coupling: Coupling
    writers: Mapping[str, JournalWriter]

    @property
    def journal(self) -> list[JournalEntry]:
        """All measurements of the last run, component by component."""
        return [e for w in self.writers.values() for e in w.entries]
