"""The compiled engine: the meaning of `sim/reference.py`, as kernels over arrays."""
