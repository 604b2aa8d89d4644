"""What every part shares during a fit: the context of the run, the guard around hooks, the console."""
