"""Where a run's records and its report go."""
