"""`/trace` serves a file of any name that a file system allows."""

import json
import os
import re
from pathlib import Path
from urllib.parse import unquote

import pytest
from tab_client import ROUTE, make_client

from lightning_gpuprof.records.files import plugin_dir, record_files, trace_name


@pytest.mark.parametrize(
    "name",
    ["ü☃.gz", "a\r\nX-Forged: 1.gz", "a\n.json", 'a"b\\c.gz', "a;b.gz", "a\x7f\x1b.gz", "計.gz"],
)
def test_a_trace_of_any_name_is_served_under_that_name(made_runs, tmp_path, name):
    made_runs.traced_run(tmp_path / "run", prepared=False)
    folder, before = Path(plugin_dir(str(tmp_path / "run"))), trace_name(0, 0, 0)
    os.rename(folder / before, folder / name)
    [file] = record_files(str(tmp_path / "run")).values()
    rename_in_records(Path(file), before, name)
    client, _ = make_client(tmp_path)
    answer = client.get(f"{ROUTE}/trace", query_string={"run": "run", "file": name})
    assert answer.status_code == 200
    assert answer.data == (folder / name).read_bytes()
    header = answer.headers["Content-Disposition"]
    assert re.fullmatch("[ -~]+", header)  # all that a line of HTTP can hold
    assert "X-Forged" not in answer.headers
    _, _, encoded = header.partition("filename*=UTF-8''")
    assert (unquote(encoded) if encoded else header.split('"')[1]) == name


def rename_in_records(file, before, name):
    text = file.read_text(encoding="utf-8")
    assert f'"{before}"' in text
    file.write_text(text.replace(f'"{before}"', json.dumps(name)), encoding="utf-8")
