"""What hardware a machine has, what is missing to measure it, and the next command to type."""
