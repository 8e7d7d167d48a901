"""Calibration: model parameters fitted to measurements, with held-out errors and intervals."""
