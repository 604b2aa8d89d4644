"""The cost of operators, and how near their kernels come to the device's limits."""
