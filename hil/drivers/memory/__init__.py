"""Drivers of memory: a core's own, loaded, and behind CXL."""
