"""Time by phase: on the host, and by marks on the device."""
