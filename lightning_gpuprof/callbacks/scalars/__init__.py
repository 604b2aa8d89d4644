"""Logged values on their way to the records, the loggers and the progress bar."""
