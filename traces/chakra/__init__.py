"""Chakra execution traces, the format of MLCommons and ASTRA-sim: a graph in, a graph out."""

from .read import read
from .write import write

__all__ = ["read", "write"]
