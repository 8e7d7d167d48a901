"""Agents: processes that run drivers, and the protocol spoken with them."""
