"""A run's files: the contract between the writing and the reading side."""
