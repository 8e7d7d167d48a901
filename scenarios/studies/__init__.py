"""A scenario run and measured: its points, what came out, and how sure that is."""
