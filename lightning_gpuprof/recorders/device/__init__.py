"""Readings of a GPU from its vendor's driver."""
