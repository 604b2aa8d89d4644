"""Where the threads of the process are, by their Python stacks."""
