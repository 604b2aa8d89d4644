"""Where threads of the process and of its loader workers are, by their Python stacks."""
