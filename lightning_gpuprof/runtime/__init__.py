"""What every part shares during a fit: the run's output, the guard around hooks, the console."""
