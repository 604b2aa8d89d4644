"""Allocator snapshots, the batch-size plan and the batch-size advice."""
