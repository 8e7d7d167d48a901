"""Driver ``torch``: PyTorch ops on CPUs and GPUs."""
