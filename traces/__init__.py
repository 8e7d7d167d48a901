"""Traces: what was recorded, and the graph of what waits for what that follows from it."""
