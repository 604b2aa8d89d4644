"""Kineto's Chrome traces, which torch.profiler exports."""
