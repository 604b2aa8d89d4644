"""A Timeline laid out to be drawn."""
