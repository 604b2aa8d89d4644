"""How long one function takes, and whether another may take its place."""
