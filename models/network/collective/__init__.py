"""Collectives: algorithms, protocols, their load on links, and the choice between them."""
