"""Comparison of a run's ranks: their steps side by side, and how long they wait for one another."""
