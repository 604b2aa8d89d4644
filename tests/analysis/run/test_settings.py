"""The typed view of a run's metadata."""

import pytest
from made_records import run_start

from lightning_gpuprof.analysis.run.settings import OptimizerFacts, Settings, settings_of


def test_settings_are_read_out_of_the_metadata():
    adam = {"class": "Adam", "package": "torch", "groups": 2, "fused": True, "weight_decay": 0.01}
    settings = settings_of(
        run_start(
            trainer={"precision": "bf16-mixed", "loggers": ["CSVLogger"], "num_devices": 4},
            model={"dtypes": {"float32": 6}, "optimizers": [adam], "children": ["embed"]},
        )
    )
    assert (settings.precision, settings.loggers, settings.num_devices) == (
        "bf16-mixed",
        ("CSVLogger",),
        4,
    )
    assert settings.dtypes == {"float32": 6}
    assert settings.children == ("embed",)
    assert settings.optimizers == (
        OptimizerFacts("Adam", "torch", groups=2, fused=True, weight_decay=True),
    )


def test_a_run_without_metadata_has_the_defaults():
    assert settings_of(run_start(trainer={}, model={})) == Settings()


@pytest.mark.parametrize(
    ("trainer", "model"),
    [
        ({"precision": 16, "limit_train_batches": "all", "loggers": "CSVLogger"}, {}),
        ({"num_devices": "auto", "strategy": None, "log_every_n_steps": None}, {}),
        ({}, {"dtypes": ["float32"], "optimizers": {"class": "Adam"}, "default_dtype": 32}),
        ({}, {"dtypes": {"float32": "many"}, "optimizers": ["Adam"], "parameter_bytes": "10"}),
    ],
)
def test_a_value_of_another_type_counts_as_not_recorded(trainer, model):
    assert settings_of(run_start(trainer=trainer, model=model)) == Settings()
