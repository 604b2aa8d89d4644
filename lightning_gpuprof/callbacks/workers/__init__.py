"""Looks into a DataLoader's worker processes."""
