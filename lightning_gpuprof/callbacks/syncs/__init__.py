"""Whose line made the host wait."""
