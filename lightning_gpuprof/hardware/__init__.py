"""Peaks of known devices, and their lookup."""
