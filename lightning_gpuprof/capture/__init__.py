"""Windows of torch.profiler: when one is open, what is recorded in it, and its trace file."""
