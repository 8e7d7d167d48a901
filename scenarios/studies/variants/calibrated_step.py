"""Calibration on a measured step: one factor on all op times on GPUs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from ....sim.rerun.sensitivity import scale_components
from ....sim.run.simulation import Simulation

if TYPE_CHECKING:
    from .variant import Variant


@dataclass(frozen=True)
class StepCalibration:
    """A measured step, and the factor on GPU op times that reproduces it.

    Parameters
    ----------
    measured, blind : step time in s, as measured and as predicted without the factor
    where : description of the measurement setup
    factor : factor on the times of all ops on GPUs
    reference : calibrated variant with the settings of the measurement
    """

    measured: float
    blind: float
    where: str
    factor: float
    reference: Variant

    def apply_to(self, simulation: Simulation) -> Simulation:
        """Simulation with the factor applied to its GPUs."""
        return with_scaled_gpu_times(simulation, self.factor)

    def text(self) -> str:
        """Description of the factor and its origin."""
        return (
            f"times of all ops on GPUs x {self.factor:.3g}, one constant, from one measured step "
            f"({self.measured:.4g} s, {self.where}; blind it was {self.blind:.4g} s)"
        )


def with_scaled_gpu_times(simulation: Simulation, factor: float) -> Simulation:
    """Simulation in which ops on GPUs take ``factor`` times as long."""
    system = simulation.system
    gpus = [system.number(name) for name in system.gpus]
    return scale_components(simulation, gpus, 1 / factor)
