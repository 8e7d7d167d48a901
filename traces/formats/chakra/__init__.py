"""Chakra execution traces, the format of MLCommons and ASTRA-sim; read and written as graphs."""

from .reader import read
from .writer import write

__all__ = ["read", "write"]
