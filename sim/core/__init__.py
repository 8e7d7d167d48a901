"""Compiled engine: computes the schedule of `sim/reference/engine.py` with numba kernels."""
