"""Executors of SPMD graphs: they run one program per class of ranks without expanding the graph."""
