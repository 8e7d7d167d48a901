"""Recordings of our own: traces, step times, and what was measured beside them."""
