"""Topologies: the links between NICs, and the routes over them."""
