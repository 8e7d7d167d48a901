"""Executors of SPMD programs: one program for each class of ranks, run without writing it out."""
