import sys

import msgspec

from lightning_gpuprof.records.decode import read_record
from lightning_gpuprof.records.schema import RunStart


def test_a_setting_that_means_never_is_read():
    never = {"check_val_every_n_epoch": sys.maxsize}
    start = RunStart(
        schema_version=2, session=0, stage="fit", started_unix_ns=1, rank=0, trainer=never
    )
    assert read_record(msgspec.json.encode(start)) == start
