"""A calibrated step: what was measured, and the one factor on GPU times that it asks for."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from ....sim.rerun.sensitivity import scale_components
from ....sim.run.simulation import Simulation

if TYPE_CHECKING:
    from .variant import Variant


@dataclass(frozen=True)
class StepCalibration:
    """A measured step, and the factor on the times of ops on GPUs that it asks for.

    Parameters
    ----------
    measured, blind : s of the step, as measured and as predicted without the factor
    where : on what it was measured, as text
    factor : on the times of all ops on GPUs
    reference : the run that the measurement is of, calibrated
    """

    measured: float
    blind: float
    where: str
    factor: float
    reference: Variant

    def apply_to(self, simulation: Simulation) -> Simulation:
        """Simulation with the factor on its GPUs."""
        return with_scaled_gpu_times(simulation, self.factor)

    def text(self) -> str:
        """Where the one constant comes from, as text."""
        return (
            f"times of all ops on GPUs x {self.factor:.3g}, one constant, from one measured step "
            f"({self.measured:.4g} s, {self.where}; blind it was {self.blind:.4g} s)"
        )


def with_scaled_gpu_times(simulation: Simulation, factor: float) -> Simulation:
    """Simulation whose GPUs take so many times as long."""
    system = simulation.system
    gpus = [system.number(name) for name in system.gpus]
    return scale_components(simulation, gpus, 1 / factor)
