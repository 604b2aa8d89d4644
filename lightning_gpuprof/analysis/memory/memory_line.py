"""Splits a memory peak into what is constant and what each sample adds."""

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Peak:
    """The highest memory of one window of steps.

    Attributes:
        samples: Of the window's largest batch.
        batch_bytes: Most that the tensors of a batch of that size took; 0 where not counted.
        least_batch_bytes: Least of the same.
        split_bytes: What the pool could not give back at the end of forward, being the free rest
            of segments in use; 0 where not read.
    """

    samples: int
    peak_allocated_bytes: int
    peak_reserved_bytes: int
    batch_bytes: int = 0
    least_batch_bytes: int = 0
    split_bytes: int = 0


def says_more(peak: Peak, others: Sequence[Peak]) -> bool:
    """Tell whether a peak says anything that earlier ones of its batch size do not.

    A batch size is judged by the extremes of the peaks alone: to keep those bounds what a long
    run keeps, and goes through for each window.

    >>> says_more(Peak(8, 11, 20), [Peak(8, 10, 20), Peak(8, 12, 20)])
    False
    >>> says_more(Peak(8, 13, 20), [Peak(8, 10, 20), Peak(8, 12, 20)])
    True
    """
    same = [one for one in others if one.samples == peak.samples]
    if not same:
        return True
    allocated = [one.peak_allocated_bytes for one in same]
    return (
        not min(allocated) <= peak.peak_allocated_bytes <= max(allocated)
        or peak.peak_reserved_bytes > max(one.peak_reserved_bytes for one in others)
        or peak.batch_bytes > max(one.batch_bytes for one in same)
        or peak.least_batch_bytes < min(one.least_batch_bytes for one in same)
    )


@dataclass(frozen=True)
class Line:
    """A peak as a straight line in the batch size."""

    constant_bytes: float
    per_sample_bytes: float

    def at(self, samples: int) -> float:
        """Return the peak that the line gives for a batch size."""
        return self.constant_bytes + self.per_sample_bytes * samples


@dataclass(frozen=True)
class Lines:
    """The line that allows the smaller batches, and the one that allows the larger.

    With one batch size the first counts as constant what is known to be: parameters, gradients,
    optimizer state, and what else stays allocated between steps less the batch and the outputs;
    the second all that stays allocated. With more sizes the line through the smallest and
    the largest is measured; the first is raised by what the sizes between lie above it.
    """

    careful: Line
    hopeful: Line
    sizes: int


def lines(peaks: Sequence[Peak], *, resting_bytes: int, known_bytes: int | None) -> Lines:
    """Fit the lines to the peaks of one or more batch sizes.

    Args:
        peaks: At least one.
        resting_bytes: Allocated between steps.
        known_bytes: Of it what is known not to grow with the batch; None where nothing is.

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
