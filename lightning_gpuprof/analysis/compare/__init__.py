"""Two runs, or two traces, side by side."""
