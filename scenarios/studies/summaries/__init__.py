"""Summaries of runs as plain data."""
