"""Analyses of a finished run: time breakdown, critical path, and waiting of ranks."""
