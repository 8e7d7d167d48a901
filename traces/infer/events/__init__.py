"""Events of one rank, as recorded: lanes, calls, kernels, steps."""
