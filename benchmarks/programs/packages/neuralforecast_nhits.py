"""NHITS over 100 series; the package makes the Trainer and copies the model with its callbacks."""

import numpy as np
import pandas as pd
from neuralforecast import NeuralForecast
from neuralforecast.models import NHITS


def fit(options):
    time = np.tile(np.arange(200), 100)
    series = np.repeat(np.arange(100), 200)
    value = np.sin(time / 5 + series) + np.random.default_rng(1).normal(0, 0.1, len(time))
    frame = pd.DataFrame({"unique_id": series.astype(str), "ds": time, "y": value})
    model = NHITS(h=12, input_size=48, max_steps=200, **options)
    NeuralForecast(models=[model], freq=1).fit(frame)
