"""Coupled runs: a device replaces a component while simulated time advances."""
