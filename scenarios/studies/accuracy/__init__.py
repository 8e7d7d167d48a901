"""Hardware in the loop: opening devices, running with them, and comparing them with models."""
