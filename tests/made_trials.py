"""What `try` may find of a program."""

from lightning_gpuprof.records.trials import ChangedSettings, Side, Trial, Trials

WORKERS = Trial(
    change="num_workers",
    value=2,
    verdict="faster",
    losses="bit-equal",
    pairs=6,
    before=Side(10_000_000, 3200.0, 2**30, 20_000_000),
    after=Side(6_000_000, 5333.3, 2**30, 30_000_000),
    low_frac=0.38,
    gain_frac=0.4,
    high_frac=0.42,
    break_even_step=3,
    findings=("data-wait",),
    predicted_ns=(3_000_000, 5_000_000),
    paste="DataLoader(..., num_workers=2, persistent_workers=True)",
)
TRIALS = Trials(
    program="train.py --lr 1",
    seconds=61.0,
    notes=("Steps are on one device.",),
    trials=(
        WORKERS,
        Trial(change="pin_memory", verdict="not run", note="there is no GPU"),
        Trial(
            change="val_check_interval",
            value=50,
            verdict="faster",
            computed=True,
            gain_frac=0.25,
            alters="validations come less often",
        ),
    ),
    combination=WORKERS,
    paste="Trainer(..., log_every_n_steps=50)\nDataLoader(..., num_workers=2)",
    settings=ChangedSettings(trainer={"log_every_n_steps": 50}, data_loader={"num_workers": 2}),
)
