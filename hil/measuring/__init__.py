"""Measuring: work lists, repeats, conditions of the machine, and spread of the results."""
