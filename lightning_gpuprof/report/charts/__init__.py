"""The views of the PROFILE tab, and the classes that read their data."""
