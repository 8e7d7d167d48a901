"""SPMD graphs: one program stored for all ranks that run it."""
