"""What operators cost, and how near their kernels come to what the device can do."""
