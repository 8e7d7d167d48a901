"""Chakra execution traces, the format of MLCommons and ASTRA-sim: a graph in, a graph out."""

from .reader import read as read
from .writer import write as write

__all__ = ["read", "write"]
