"""Looks at a few batches, or once, for what phases alone do not show."""
