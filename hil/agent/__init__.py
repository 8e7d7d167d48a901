"""Agents: processes that run drivers, and the protocol between client and agent."""
