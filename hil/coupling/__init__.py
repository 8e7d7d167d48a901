"""Coupled runs: a device in place of a component while simulated time goes on."""
