"""Trials in child runs, plan, latency, A/B. Nothing else imports this package."""
