"""Analyses that repeat a run with changes: faster components, and errors of models."""
