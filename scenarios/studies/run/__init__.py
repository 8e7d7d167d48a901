"""A scenario run: planned, executed, measured and saved."""
