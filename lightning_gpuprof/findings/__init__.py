"""Rules, one per file in rules/, and the engine that evaluates and ranks them."""
