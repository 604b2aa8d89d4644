"""What torch's allocator says of the device's memory."""
