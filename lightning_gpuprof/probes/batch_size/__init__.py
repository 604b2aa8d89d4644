"""What a step takes at a batch size: predicted (`plan`) or tried (`tune`)."""
