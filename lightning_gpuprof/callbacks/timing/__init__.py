"""What `PhaseTimer` is made of: clock and marks in, windows of steps out."""
