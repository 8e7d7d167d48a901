"""Rank programs: the ops of a training step in order, as a graph."""
