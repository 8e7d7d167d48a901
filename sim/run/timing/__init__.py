"""Timing of graphs by the backends of a machine: placed, asked, and rounded to ticks."""
