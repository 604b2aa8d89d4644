"""Turns results and findings into payloads, console text and HTML; layout only."""
