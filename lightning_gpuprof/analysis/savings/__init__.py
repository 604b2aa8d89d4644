"""Models of how much of a step's time a change saves."""
