"""Numbers that stay on the device until a whole window of them is read."""
