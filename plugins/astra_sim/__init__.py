"""Conversion of ASTRA-sim inputs to scenarios."""
