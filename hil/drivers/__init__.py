"""Drivers: each one executes ops on one kind of device and times them."""
