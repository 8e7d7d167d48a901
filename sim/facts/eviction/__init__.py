"""Eviction rules of stores: which cached entry goes first. One rule per file."""
