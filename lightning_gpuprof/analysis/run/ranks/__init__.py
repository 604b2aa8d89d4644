"""How the ranks of a run wait for one another."""
