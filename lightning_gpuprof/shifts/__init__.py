"""Finds slow-downs in the times of steps: pure functions that recorders and analyses share."""
