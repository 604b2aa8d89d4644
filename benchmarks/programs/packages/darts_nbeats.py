"""N-BEATS over one long series; the package makes the Trainer from `pl_trainer_kwargs`."""

import numpy as np
from darts import TimeSeries
from darts.models import NBEATSModel


def fit(options):
    time = np.arange(4000)
    value = np.sin(time / 9) + np.random.default_rng(1).normal(0, 0.1, len(time))
    model = NBEATSModel(
        input_chunk_length=24,
        output_chunk_length=6,
        num_stacks=4,
        layer_widths=64,
        n_epochs=2,
        random_state=1,
        pl_trainer_kwargs=options,
    )
    model.fit(TimeSeries.from_values(value.astype(np.float32)))
