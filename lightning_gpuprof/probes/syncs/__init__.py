"""Calls that make the host wait for the device."""
