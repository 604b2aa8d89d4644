"""The sections of a run's document, each built from the run's results."""
