"""Bundled recordings: traces, step times, and further measurements of the same runs."""
