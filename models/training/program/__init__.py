"""Programs of ranks: the ops of a step in order, as a graph."""
