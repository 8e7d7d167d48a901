"""Recording a training script as it is, by torch.profiler."""
