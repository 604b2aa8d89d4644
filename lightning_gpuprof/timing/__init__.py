"""Times the phases of a step: profiler proxy, phase clock, device events, step records."""
