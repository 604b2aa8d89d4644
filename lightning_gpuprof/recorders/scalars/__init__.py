"""Scalars that stay on the device until a whole window of them is copied to the host."""
