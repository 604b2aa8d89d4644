import json


def test_variants_take_turns_and_every_second_round_runs_backwards(fault_suite):
    from _harness import interleaved

    order = []
    variants = {name: lambda name=name: order.append(name) or len(order) for name in "abc"}

    figures = interleaved(variants, rounds=2)

    assert "".join(order) == "abccba"
    assert figures == {"a": [1, 6], "b": [2, 5], "c": [3, 4]}


def test_results_are_dated_and_say_on_which_machine(fault_suite, tmp_path):
    from _harness import write_results

    path = write_results("example", {"figure": 1}, folder=tmp_path)
    document = json.loads(path.read_text())

    assert path.name == f"example-{document['date'][:10]}.json"
    assert document["figure"] == 1
    assert {"cpu", "cores", "python", "versions"} <= set(document["machine"])
