"""Recording of an unchanged training script by torch.profiler."""
