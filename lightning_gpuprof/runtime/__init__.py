"""What the parts of the writing side share in a run: context, hooks, wrapping, guard, console."""
