"""Samples of Python stacks: at which lines the training thread and the workers spend their time."""
