"""What torch.profiler exports: Kineto's Chrome trace."""
