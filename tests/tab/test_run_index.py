from lightning_gpuprof.tab.run_index import RunIndex, parse_roots


def test_remote_runs_are_known_by_their_marker():
    index = RunIndex(parse_roots("gs://bucket/logs", ""), lambda: [".", "a/b"])
    assert index.runs() == {".": "gs://bucket/logs", "a/b": "gs://bucket/logs/a/b"}


def test_remote_runs_of_a_named_root_lose_the_name_in_their_path():
    index = RunIndex(parse_roots("", "x:gs://bucket/logs"), lambda: ["x", "x/v0", "y/v0"])
    assert index.runs() == {"x": "gs://bucket/logs", "x/v0": "gs://bucket/logs/v0"}


def test_a_listing_is_reused_for_a_moment_and_then_made_again(tmp_path, made_runs):
    now = [0.0]
    index = RunIndex([("", str(tmp_path))], list, clock=lambda: now[0])
    assert index.runs() == {}
    made_runs.bare_run(tmp_path / "new")
    assert index.runs() == {}
    now[0] += 10.0
    assert list(index.runs()) == ["new"]


def test_a_local_folder_that_is_not_there_is_known_as_missing(tmp_path):
    roots = [("", str(tmp_path)), ("x", str(tmp_path / "typo")), ("", "gs://bucket/logs")]
    assert RunIndex(roots, list).missing() == [str(tmp_path / "typo")]
