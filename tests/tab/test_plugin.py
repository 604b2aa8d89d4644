"""The routes, asked through TensorBoard's own WSGI application."""

import gzip
import json
import re
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
from document_parts import lines_in, read_document, read_sections, table_in
from synthetic import SyntheticSpec, write_synthetic
from tab_client import ROUTE, make_client

from lightning_gpuprof.report.build_trace import trace_document
from lightning_gpuprof.report.stored_analysis import read_analysis, write_analysis
from lightning_gpuprof.tab.loader import GpuProfLoader


@pytest.fixture(scope="module")
def logs(made_runs, tmp_path_factory):
    return made_runs.all_runs(tmp_path_factory.mktemp("logs"))


@pytest.fixture(scope="module")
def client(logs):
    return make_client(logs)[0]


def get(client, path, code=200, **params):
    answer = client.get(f"{ROUTE}/{path}", query_string=params)
    assert answer.status_code == code, answer.get_data(as_text=True)[:500]
    return answer


def test_every_run_below_the_log_dir_is_listed_with_its_state(client):
    runs = {run["name"]: run["state"] for run in get(client, "runs").json["runs"]}
    assert runs == {
        "bare": "stopped",
        "char_lm/version_0": "finished",
        "char_lm/version_1": "finished",
        "gpu": "finished",
        "hostile <b>run</b>": "exception",
        "hostile_trace": "finished",
        "killed": "stopped",
        "live": "live",
        "newer": "newer-schema",
        "traced": "finished",
        "many_ranks": "finished",
        "two_ranks": "finished",
    }


def test_the_tab_is_active_where_the_log_dir_has_a_run(logs, tmp_path):
    client, plugin = make_client(tmp_path)
    assert get(client, "runs").json["runs"] == []
    assert not plugin.is_active()
    assert make_client(logs)[1].is_active()


def test_a_folder_of_plain_traces_is_a_run_of_its_profiled_steps(tmp_path, made_runs):
    trace = tmp_path / "resnet" / "host_1.2.pt.trace.json"
    trace.parent.mkdir()
    write_synthetic(trace, SyntheticSpec(steps=3))
    (trace.parent / "gone.pt.trace.json").symlink_to(tmp_path / "nowhere")
    client, plugin = make_client(tmp_path)
    (listed,) = get(client, "runs").json["runs"]
    assert (listed["name"], listed["state"], listed["analysed"]) == ("resnet", "trace", 0)
    waiting = read_document(get(client, "report", run="resnet").json)
    assert waiting.verdict.title == "No trace is analysed yet"
    assert plugin.is_active()
    write_analysis(str(trace))
    assert get(client, "runs").json["runs"][0]["analysed"] == 1
    analysis = read_analysis(str(trace))
    marks = sum(step.dur_ns for step in analysis.steps)
    report = read_document(get(client, "report", run="resnet").json)
    assert report.sections[1:] == trace_document(analysis).sections
    step_ns = max(marks, analysis.gpu.span_ns) / 3
    assert report.figure("step_ns") == pytest.approx(step_ns, abs=1)
    assert "Traces only" in lines_in([report.section("notices")])[0]
    sections = read_sections(get(client, "operators", run="resnet").json["sections"])
    assert table_in(sections, "operators").rows
    assert get(client, "trace", run="resnet", file=trace.name).data == trace.read_bytes()


def test_folders_of_traces_are_compared_with_one_another_and_with_no_run(tmp_path, made_runs):
    made_runs.demo_run(tmp_path / "run")
    for name, steps in (("a", 3), ("b", 4)):
        (tmp_path / name).mkdir()
        write_synthetic(tmp_path / name / "host.pt.trace.json", SyntheticSpec(steps=steps))
    client, _ = make_client(tmp_path)
    waiting = get(client, "compare", run="b", base="a")
    assert waiting.json["state"] == "preparing"
    for name in ("a", "b"):
        write_analysis(str(tmp_path / name / "host.pt.trace.json"))
    document = read_document(get(client, "compare", run="b", base="a").json)
    assert document.figure("base") == str(tmp_path / "a" / "host.pt.trace.json")
    assert table_in(document.sections, "operators").rows
    refused = get(client, "compare", 400, run="b", base="run")
    assert "run is a run and b holds only traces" in refused.json["error"]


def test_traces_beside_records_are_no_run_of_their_own(tmp_path, made_runs):
    (made_runs.killed_run(tmp_path / "a") / "host.pt.trace.json").write_text("{}")
    (listed,) = get(make_client(tmp_path)[0], "runs").json["runs"]
    assert (listed["name"], listed["state"]) == ("a", "stopped")


def test_the_run_whose_last_session_began_last_is_first(made_runs, tmp_path):
    for name, started in (("a", (1, 9)), ("b", (5,)), ("c", (7,))):
        starts = [
            made_runs.run_start(session=session, started_unix_ns=when)
            for session, when in enumerate(started)
        ]
        made_runs.write_run(tmp_path / name, starts)
    runs = get(make_client(tmp_path)[0], "runs").json["runs"]
    assert [(run["name"], run["started_unix_ns"]) for run in runs] == [("a", 9), ("c", 7), ("b", 5)]


def test_runs_tell_their_model_so_that_one_of_the_same_can_be_picked_to_compare_with(logs):
    runs = get(make_client(logs)[0], "runs").json["runs"]
    models = {run["name"]: run.get("model") for run in runs}
    assert models["gpu"] == {"class": "CharTransformer", "parameters": 824_192}
    assert models["newer"] is None
    strategies = {run["name"]: run.get("strategy") for run in runs}
    assert strategies["gpu"] == "single_device"


def test_runs_of_a_logdir_spec_carry_its_names(logs):
    spec = f"first:{logs}/char_lm,second:{logs}/gpu,{logs}/killed"
    runs = get(make_client(logdir_spec=spec)[0], "runs").json["runs"]
    assert sorted(run["name"] for run in runs) == [
        ".",
        "first/version_0",
        "first/version_1",
        "second",
    ]


def test_phases_of_a_bucket_add_up_to_its_mean_step(client):
    payload = get(client, "steps", run="char_lm/version_1", buckets="10").json
    assert payload["steps"] == 5000
    assert sum(payload["count"]) == 5000
    means = [sum(values) for values in zip(*payload["phase_ns"].values(), strict=True)]
    assert all(40e6 < mean < 50e6 for mean in means)
    assert all(high >= mean for mean, high in zip(means, payload["max_ns"], strict=True))
    body = get(client, "steps", run="char_lm/version_1", buckets="1000").get_data()
    assert len(body) < 200_000


def test_a_session_and_rank_can_be_chosen(client):
    header = get(client, "run", run="two_ranks", rank="1").json
    assert (header["rank"], header["world_size"]) == (1, 2)


@pytest.mark.parametrize(
    ("path", "params", "code", "says"),
    [
        ("report", {}, 400, "names no run"),
        ("report", {"run": "nowhere"}, 404, "no run 'nowhere'"),
        ("report", {"run": "../../etc"}, 404, "no run"),
        ("steps", {"run": "gpu", "first": "two"}, 400, "first='two' is not a whole number"),
        ("steps", {"run": "gpu", "buckets": "0"}, 400, "pass 1 to 1000"),
        ("steps", {"run": "gpu", "rank": "7"}, 400, "its ranks are 0"),
        ("steps", {"run": "gpu", "session": "3"}, 400, "no session 3"),
        ("run", {"run": "newer"}, 400, "holds no session that this version can read"),
        ("operators", {"run": "gpu", "trace": "../rank0.jsonl"}, 400, "no trace file"),
        ("trace", {"run": "gpu", "file": "rank0.jsonl"}, 404, "no trace file"),
        ("trace", {"run": "gpu", "file": "../../../etc/passwd"}, 404, "no trace file"),
        (
            "trace",
            {"run": "hostile <b>run</b>", "file": "../../../../../../etc/passwd"},
            404,
            "no trace file",
        ),
        ("static/../plugin.py", {}, 404, "no static file"),
        ("static/%2e%2e/plugin.py", {}, 404, "no static file"),
    ],
)
def test_what_cannot_be_answered_is_refused_with_a_sentence(client, path, params, code, says):
    assert says in get(client, path, code=code, **params).json["error"]


def test_a_trace_is_served_as_it_lies_on_disk(client, logs):
    name = "rank0-cycle0.pt.trace.json.gz"
    answer = get(client, "trace", run="gpu", file=name)
    assert answer.get_data() == (logs / "gpu/plugins/gpuprof" / name).read_bytes()
    assert "Content-Encoding" not in answer.headers
    assert json.loads(gzip.decompress(answer.get_data()))["traceEvents"]


def test_modules_are_served_as_javascript(client):
    answer = get(client, "static/index.js")
    assert answer.headers["Content-Type"] == "text/javascript; charset=utf-8"


def test_plotly_comes_compressed(client):
    answer = client.get(f"{ROUTE}/plotly.js", headers={"Accept-Encoding": "gzip"})
    assert answer.headers["Content-Encoding"] == "gzip"
    assert b"plotly.js" in gzip.decompress(answer.get_data())[:500]


def test_a_run_that_grows_is_read_again(made_runs, tmp_path):
    made_runs.write_run(tmp_path, [made_runs.run_start()])
    client, _ = make_client(tmp_path)
    assert get(client, "steps", run=".").json["steps"] == 0
    made_runs.write_run(tmp_path, made_runs.windows(100, made_runs.DEMO_PHASES_MS))
    assert get(client, "steps", run=".").json["steps"] == 100


def test_the_tab_is_called_profile_and_beside_an_active_xprof_gpu_profile(logs, monkeypatch):
    plugin = make_client(logs)[1]
    assert plugin.frontend_metadata().tab_name == "Profile"
    monkeypatch.setitem(sys.modules, "xprof", SimpleNamespace())
    assert plugin.frontend_metadata().tab_name == "Profile"
    (logs / "gpu/plugins/profile").mkdir()
    make_client(logs)[0]
    plugin = make_client(logs)[1]
    plugin.is_active()
    assert plugin.frontend_metadata().tab_name == "GPU Profile"


def test_every_route_is_on_the_page_that_documents_them():
    page = Path(__file__).parents[2] / "lightning_gpuprof/tab/http_api.md"
    written = set(re.findall(r"^## `(.+)`$", page.read_text(), flags=re.MULTILINE))
    assert written == set(make_client("/nowhere")[1].get_plugin_apps())


def test_a_loader_that_cannot_import_the_plugin_leaves_tensorboard_alone(monkeypatch, caplog):
    monkeypatch.setitem(sys.modules, "lightning_gpuprof.tab.plugin", None)
    assert GpuProfLoader().load(SimpleNamespace()) is None
    assert "left out" in caplog.text
