"""Embedded categories of 8,000 rows; the package makes module and Trainer."""

import numpy as np
import pandas as pd
from pytorch_tabular import TabularModel
from pytorch_tabular.config import DataConfig, OptimizerConfig, TrainerConfig
from pytorch_tabular.models import CategoryEmbeddingModelConfig


def fit(options):
    chance = np.random.default_rng(1)
    numbers = [f"number{n}" for n in range(8)]
    table = pd.DataFrame(chance.normal(size=(8000, 8)), columns=numbers)
    table["kind"] = chance.choice(list("abcdef"), len(table))
    table["right"] = (table["number0"] + (table["kind"] == "a") > 0).astype(int)
    columns = DataConfig(target=["right"], continuous_cols=numbers, categorical_cols=["kind"])
    training = TrainerConfig(
        batch_size=64,
        max_epochs=2,
        accelerator=options["accelerator"],
        early_stopping=None,
        checkpoints=None,
        load_best=False,
        progress_bar="none",
        trainer_kwargs={"default_root_dir": options["default_root_dir"]},
    )
    model = TabularModel(
        data_config=columns,
        model_config=CategoryEmbeddingModelConfig(task="classification", layers="64-32"),
        optimizer_config=OptimizerConfig(),
        trainer_config=training,
        verbose=False,
    )
    model.fit(train=table, callbacks=options["callbacks"])
