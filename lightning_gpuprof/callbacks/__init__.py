"""The public callbacks, which are thin: the rooms below do the work. One callback per file."""
