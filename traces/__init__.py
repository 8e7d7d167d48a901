"""Traces: recorded events, and the dependency graph inferred from them."""
