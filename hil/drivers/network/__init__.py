"""Drivers of networks: TCP, switches, and collectives between ranks."""
