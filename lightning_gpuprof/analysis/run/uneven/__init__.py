"""Steps that are unlike the others, and what changes over a run."""
