"""Units of what processes emit and record: each quantity of a job has one."""

from __future__ import annotations

from ..errors import SimulationError


class DeclaredUnits(dict[tuple[int, str], str]):
    """Unit by job number and name, where it is known.

    Examples
    --------
    >>> units = DeclaredUnits()
    >>> units.declare(0, "latency", "s")
    >>> units[0, "latency"]
    's'
    """

    def declare(self, job: int, name: str, unit: str) -> None:
        """Declare the unit of a quantity of a job; "" is that of a plain number.

        Raises
        ------
        SimulationError
            The quantity already has another unit.
        """
        known = self.setdefault((job, name), unit)
        if known != unit:
            raise SimulationError(
                "action",
                f"{name}: a value has the unit {unit!r}, earlier ones {known!r}; use one unit",
            )
