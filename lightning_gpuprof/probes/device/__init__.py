"""What the driver says of the device, and what the machine has."""
