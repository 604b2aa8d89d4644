"""What a run leaves on disk: the contract between the writing and the reading side."""
