"""Trace formats, read and written: one module or folder per format."""
