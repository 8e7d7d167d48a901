"""Inventory for measuring: hardware of a machine, what is missing, and the next command."""
