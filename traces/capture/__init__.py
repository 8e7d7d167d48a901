"""Capture: record a training script with torch.profiler, or its ops without running it."""
