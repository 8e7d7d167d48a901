"""Compiled processes: policies as kernels, and how a run calls them."""
