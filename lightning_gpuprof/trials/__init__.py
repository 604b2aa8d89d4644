"""Measurements in child runs: tune, latency, A/B. Nothing else imports this package."""
