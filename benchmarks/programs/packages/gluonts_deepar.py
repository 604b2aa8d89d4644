"""DeepAR over 50 series; the package makes the Trainer and feeds it from an endless iterable."""

import numpy as np
from gluonts.dataset.common import ListDataset
from gluonts.torch import DeepAREstimator


def fit(options):
    noise = np.random.default_rng(1).normal(0, 0.1, (50, 300))
    rows = [
        {"start": "2024-01-01", "target": np.sin(np.arange(300) / 7 + number) + row}
        for number, row in enumerate(noise)
    ]
    estimator = DeepAREstimator(
        freq="D", prediction_length=7, trainer_kwargs={"max_epochs": 3, **options}
    )
    estimator.train(ListDataset(rows, freq="D"))
