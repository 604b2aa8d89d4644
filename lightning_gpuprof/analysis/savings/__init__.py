"""Models of how much of a cost a change can save."""
