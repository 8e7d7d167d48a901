"""Compiled media: how concurrent flows share the rates of components."""
