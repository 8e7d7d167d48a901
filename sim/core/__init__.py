"""The compiled engine: the meaning of `sim/reference/engine.py`, as kernels over arrays."""
