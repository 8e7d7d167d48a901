"""The compiled engine: the meaning of `sim/reference/machine.py`, as kernels over arrays."""
