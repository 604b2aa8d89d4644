"""Looks at a run's first batches: what a step does that it need not do."""
