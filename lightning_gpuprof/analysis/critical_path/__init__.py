"""What a trace's time hung on, and what it would take without a part of the work."""
