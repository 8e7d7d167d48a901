"""SPMD graphs: a program stored once for all ranks that run it."""
