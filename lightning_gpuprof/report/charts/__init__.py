"""The views of the PROFILE tab, and what they are read from."""
