"""GPU state from NVML, and GPU memory that a NIC can access."""
