"""Static descriptions of work and machines: ops, graphs, components, and op timings."""
