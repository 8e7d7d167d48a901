"""Calibration: fit of model parameters to measurements, with held-out errors and intervals."""
