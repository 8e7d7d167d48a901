"""Scenarios from the inputs of ASTRA-sim."""
