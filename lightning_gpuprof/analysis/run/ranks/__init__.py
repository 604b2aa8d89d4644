"""What the ranks of a run do to one another."""
