"""Trace formats to read and write: one module or folder per format."""
