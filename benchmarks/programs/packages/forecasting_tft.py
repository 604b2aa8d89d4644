"""A temporal fusion transformer over 60 series."""

import numpy as np
import pandas as pd
from lightning.pytorch import Trainer
from pytorch_forecasting import TemporalFusionTransformer, TimeSeriesDataSet


def fit(options):
    time = np.tile(np.arange(80), 60)
    series = np.repeat(np.arange(60), 80)
    value = np.sin(time / 5 + series) + np.random.default_rng(1).normal(0, 0.1, len(time))
    data = pd.DataFrame({"time": time, "series": series.astype(str), "value": value})
    training = TimeSeriesDataSet(
        data,
        time_idx="time",
        target="value",
        group_ids=["series"],
        max_encoder_length=24,
        max_prediction_length=6,
        time_varying_unknown_reals=["value"],
    )
    loader = training.to_dataloader(train=True, batch_size=32, num_workers=0)
    model = TemporalFusionTransformer.from_dataset(training, hidden_size=8, dropout=0.1)
    Trainer(max_steps=120, gradient_clip_val=0.1, enable_model_summary=False, **options).fit(
        model, loader
    )
