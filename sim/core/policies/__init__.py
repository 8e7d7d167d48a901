"""Compiled processes inside the compiled engine: their kernels are called without Python."""
