"""Compilation and caching of numba kernels, and small kernels for general use."""
