"""Facts about work and machines: ops, graphs, components, and how long ops take alone."""
