"""Measuring: work lists, repeats, machine conditions, and the spread of results."""
