"""SPMD graphs: one program per class of ranks is timed, folded and run without expansion."""
