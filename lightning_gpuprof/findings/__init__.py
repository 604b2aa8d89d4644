"""Rules, one per file; RULES lists them."""
