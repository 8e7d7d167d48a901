"""Driver ``torch``: ops of PyTorch on CPUs and GPUs."""
