"""Analyses of a run: where time went, the critical path, what faster components would change."""
