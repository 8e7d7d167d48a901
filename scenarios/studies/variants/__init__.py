"""Variants of a scenario: built, checked, run and measured."""
