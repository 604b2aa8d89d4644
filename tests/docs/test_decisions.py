from pathlib import Path

DECISIONS = Path(__file__).parents[2] / "docs" / "adr"


def test_the_index_lists_every_decision_by_its_number_and_title():
    rows = []
    for path in sorted(DECISIONS.glob("0*.md")):
        number, _, title = path.read_text().partition("\n")[0].removeprefix("# ").partition(". ")
        assert path.name.startswith(f"{int(number):04}-")
        rows.append(f"- [{number}]({path.name}) {title}")
    index = (DECISIONS / "README.md").read_text().splitlines()
    assert rows
    assert [line for line in index if line.startswith("- [")] == rows
