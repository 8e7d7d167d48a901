"""Network drivers: TCP, switches, and collectives between ranks."""
