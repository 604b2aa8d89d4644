"""Windows of torch.profiler: when they open and close, and the trace files they leave."""
