"""Topologies: which links there are between NICs, and which routes lead over them."""
