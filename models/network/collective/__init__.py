"""Collectives: algorithms, protocols, their loads on links, and the choice among them."""
