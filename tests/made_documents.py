"""Hand-made documents for tests of the renderers: each type of part, with exact figures."""

from lightning_gpuprof.report.document import (
    SCHEMA_VERSION,
    Bar,
    Bars,
    Chart,
    Column,
    Document,
    Figure,
    Figures,
    FindingCard,
    Interval,
    Place,
    Saving,
    Section,
    Subject,
    Table,
    Text,
    Verdict,
)

MS = 1_000_000
LINE = Place(file="train.py", line=12, function="training_step", source="loss.item()")


def saving(**changed):
    fields = {
        "low_ns": 2 * MS,
        "high_ns": 3 * MS,
        "likely_ns": round(2.5 * MS),
        "frac": Interval(0.2, 0.3),
        "step_after_ns": Interval(7 * MS, 8 * MS),
        "when": "in_steps",
        "confidence": 0.9,
        "measured": None,
        "sentence": "saves 2.0 to 3.0 ms per step (20 to 30%), 90% sure of the cause",
        "short": "20 to 30%",
        "outcome": "a step of 7.5 ms (7.0 to 8.0 ms) instead of 10.0 ms",
    }
    return Saving(**fields | changed)


def finding(id="host-sync", **changed):
    fields = {
        "severity": "warning",
        "title": f"{id} holds the step back",
        "advice": f"Do less of {id}.",
        "change": "a = 1\nb = 2",
        "short_change": "a = 1",
        "short_change_is_code": True,
        "saving": saving(),
        "evidence": (Figure("wait_ns", "wait", 2 * MS, "ns"),),
        "places": (LINE,),
        "confidence": 0.9,
    }
    return FindingCard(id=id, **fields | changed)


def verdict(**changed):
    fields = {
        "kind": "change",
        "label": "Fix first",
        "title": "host-sync holds the step back",
        "sentence": "Do less of host-sync.",
        "finding": "host-sync",
        "change": "a = 1",
        "place": LINE,
        "gain": "a step of 7.5 ms (7.0 to 8.0 ms) instead of 10.0 ms, 90% sure of the cause",
        "gain_short": "20 to 30%",
    }
    return Verdict(**fields | changed)


PHASES = Bars(
    id="phases",
    unit="ns",
    bars=(
        Bar("forward", "Forward", 6 * MS, 0.6, device_value=7 * MS),
        Bar("part", "net.head", 2 * MS, 0.2, level=1),
        Bar("backward", "Backward", 3.96 * MS, 0.396, device_value=2 * MS),
        Bar("logging", "Logging", 0.03 * MS, 0.003),
        Bar("zero_grad", "Zero grad", 0.01 * MS, 0.001, device_value=0.01 * MS),
    ),
    device_label="Device, including idle",
)
OPERATORS = Table(
    id="operators",
    columns=(
        Column("name", "Operator", "code"),
        Column("place", "Line", "place", keep_end=True),
        Column("device_self_ns", "Device self", "ns", bar=True),
        Column("frac", "Share", "frac"),
        Column("count", "Calls", "count"),
        Column("stack", "Stack", "text", detail="verbose"),
        Column("occupancy_frac", "Occupancy", "frac"),
    ),
    rows=(
        {"name": "aten::mm", "place": LINE, "device_self_ns": 4 * MS, "frac": 0.4, "count": 12_000},
        {"name": "a|b", "device_self_ns": 1 * MS, "count": 2, "stack": "deep", "level": 1},
        {"name": "aten::add", "frac": 0.01, "count": 1},
    ),
    first_rows=2,
    sort="device_self_ns",
)
QUESTIONS = Table(
    id="questions",
    columns=(
        Column("state", "", "state"),
        Column("value", "Value", "text"),
        Column("question", "Question", "text"),
    ),
    rows=(
        {"state": "look", "value": "40%", "question": "Does it wait?", "note": "Look there."},
        {"state": "not_measured", "question": "Is it full?"},
    ),
)


def document(*findings, sections=(), **subject):
    """Return a document with each type of part; `findings` instead of two of its own."""
    findings = findings or (finding(), finding("slow-logging", severity="info", change=None))
    first = any(card.id == "host-sync" for card in findings)
    fields = {
        "kind": "run",
        "name": "version_0",
        "path": "logs/version_0",
        "line": "fit, finished, 100 steps in 1.00 s",
    }
    return Document(
        SCHEMA_VERSION,
        Subject(**fields | subject),
        sections
        or (
            Section(
                "headline",
                "",
                "first",
                (
                    Figures(
                        (
                            Figure("step_ns", "Step time", 10 * MS, "ns", "mean of 90 steps"),
                            Figure("busy_frac", "GPU busy", None, "frac"),
                        ),
                        large=True,
                    ),
                    Text(("GPU: it waits for the host",), "strong"),
                ),
            ),
            Section("notices", "", "first", (Text(("One rank is missing.",), "note"),)),
            Section("verdict", "", "first", (verdict(),) if first else ()),
            Section("phases", "Where a step goes", "first", (PHASES,), note="mean per step"),
            Section("findings", "What holds it back", "first", findings),
            Section("steps", "Steps", "page", (Chart("steps", "Steps over time"),)),
            Section("operators", "Top operators", "page", (OPERATORS,)),
            Section("questions", "Questions", "verbose", (QUESTIONS,)),
            Section(
                "commands",
                "Next",
                "page",
                (Text(("lightning-gpuprof compare logs/version_0 NEW_RUN",), "command"),),
            ),
        ),
    )
