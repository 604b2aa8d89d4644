"""Recordings of torch.profiler: when they run, their files, and what finishes those."""
