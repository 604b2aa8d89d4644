"""Splits a memory peak into a constant part and a part per sample."""

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Peak:
    """The highest memory while training at one batch size.

    Attributes:
        batch_bytes: Most that the tensors of a batch of this size took; 0 where not counted.
        least_batch_bytes: Least of the same.
        split_bytes: Free at the end of forward in segments that are partly in use, which the
            pool cannot release; 0 where not read.
    """

    samples: int
    peak_allocated_bytes: int
    peak_reserved_bytes: int
    batch_bytes: int = 0
    least_batch_bytes: int = 0
    split_bytes: int = 0


@dataclass(frozen=True)
class Line:
    """A peak as a straight line in the batch size."""

    constant_bytes: float
    per_sample_bytes: float

    def at(self, samples: int) -> float:
        """Return the line's peak for a batch size."""
        return self.constant_bytes + self.per_sample_bytes * samples


@dataclass(frozen=True)
class Lines:
    """The line that allows the smaller batches, and the line that allows the larger ones.

    With one batch size the careful line takes as constant only memory known to be: parameters,
    gradients, optimizer state, and other memory that stays allocated between steps, less the
    batch and the outputs. The hopeful line takes all that stays allocated. With more sizes the
    line through the smallest and the largest is measured; the careful line is raised to the
    sizes between that lie above it.
    """

    careful: Line
    hopeful: Line
    sizes: int


def lines(peaks: Sequence[Peak], *, resting_bytes: int, known_bytes: int | None) -> Lines:
    """Fit the lines to the peaks of one or more batch sizes.

    Args:
        peaks: At least one.
        resting_bytes: Allocated between steps.
        known_bytes: The part of it known not to grow with the batch; None where nothing is.

    >>> one = lines([Peak(10, 150, 150)], resting_bytes=60, known_bytes=50)
    >>> one.careful.per_sample_bytes, one.hopeful.per_sample_bytes
    (10.0, 9.0)
    """
    highest: dict[int, int] = {}
    for peak in peaks:
        highest[peak.samples] = max(peak.peak_allocated_bytes, highest.get(peak.samples, 0))
    small, large = min(highest), max(highest)
    if small == large:
        known = resting_bytes if known_bytes is None else min(known_bytes, resting_bytes)
        careful = _through(known, large, highest[large])
        return Lines(careful, _through(resting_bytes, large, highest[large]), sizes=1)
    slope = (highest[large] - highest[small]) / (large - small)
    line = Line(highest[large] - slope * large, slope)
    above = max(peak - line.at(samples) for samples, peak in highest.items())
    return Lines(Line(line.constant_bytes + above, slope), line, sizes=len(highest))


def _through(constant: float, samples: int, peak: int) -> Line:
    constant = float(min(constant, peak))
    return Line(constant, (peak - constant) / max(1, samples))
