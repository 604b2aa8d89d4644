"""Readings of device memory, and the batch size that would fill it."""
