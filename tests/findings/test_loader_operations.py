"""What the making of batches was seen in says what to do about it."""

import pytest

from lightning_gpuprof.analysis.run.host_lines import HostLines, LineCount
from lightning_gpuprof.analysis.savings.hidden import Exposed
from lightning_gpuprof.findings.loader_cures import choose_cure
from lightning_gpuprof.findings.loader_operations import cure_of, operations
from lightning_gpuprof.records.schema import Loader, Note

MS = 1_000_000


def line(callee, source="x = f(x)", *, at=7, count=60):
    return LineCount("data_wait", "t.py", at, "__getitem__", source, callee, None, count)


@pytest.mark.parametrize(
    ("callee", "said"),
    [
        ("copy.deepcopy", "copies all that the object holds"),
        ("copy._deepcopy_dict", "copies all that the object holds"),
        ("_strptime._strptime_datetime", "dates are parsed"),
        ("pandas.to_datetime", "dates are parsed"),
        ("re.sub", "texts are searched"),
        ("json.loads", "parse once"),
        ("PIL.resize", "resampled one by one"),
        ("PIL.open", "decode them once"),
        ("cv2.imread", "decode them once"),
        ("pandas.__getitem__", "rows of a DataFrame"),
        ("zipfile.read", "unpack once"),
        ("wave.readframes", "read only the piece"),
        ("numpy.load", "read only the piece"),
        ("glob.glob", "list the files once"),
        ("numpy.choice", "running sum"),
        ("numpy.convolve", "by FFT"),
        ("scipy.gaussian_filter", "by FFT"),
        ("numpy.sort", "sorted for each sample"),
        ("networkx.neighbors", "graphs are walked"),
        ("transformers.__call__", "cut into tokens"),
        ("numpy.array", "one array of all samples"),
    ],
)
def test_a_library_that_a_line_was_in_has_its_own_cure(callee, said):
    assert said in cure_of(line(callee))


@pytest.mark.parametrize(
    ("source", "said"),
    [
        ("nodes = torch.cat([nodes, more])", "join that once at the end"),
        ("self.seen = np.append(self.seen, one)", "join that once at the end"),
        ("x = (x / 255.0 - MEAN) / STD", "scale a whole batch"),
        ("x = F.conv2d(noise, self.gaussian)", "a filter costs"),
        ("return torch.tensor(rows)", "read number by number"),
        ("while article in self.bought[customer]:", "set or dict"),
        ('row = self.table.execute("SELECT 1")', "ask for a whole batch"),
    ],
)
def test_a_line_that_ran_itself_is_known_by_its_text(source, said):
    assert said in cure_of(line(None, source))


@pytest.mark.parametrize(
    ("callee", "source"),
    [
        (None, "both = torch.cat([x, y, x])[1:]"),
        (None, "return [f(x) for x in self.rows]"),
        (None, "subject['scan'] = subject['scan'][place] * 0.9"),
        ("company.decode", "x = company.decode(y)"),
        ("copy.copy", "x = copy(y)"),
        ("recall.sub", "x = recall.sub(y)"),
    ],
)
def test_of_other_lines_nothing_is_made_up(callee, source):
    assert cure_of(line(callee, source)) is None


def noted(*lines, whole=100):
    return HostLines(2 * whole, lines, {"data_wait": whole, "forward": whole})


def test_operations_come_in_the_order_of_their_time_and_rare_ones_not_at_all():
    found = operations(
        noted(
            line("json.loads", at=3, count=30),
            line("copy.deepcopy", at=4, count=26),
            line("copy._reconstruct", at=5, count=14),
            line("re.sub", at=6, count=4),
        )
    )
    assert [(one.name, one.frac, one.place) for one in found] == [
        ("copy.deepcopy", 0.4, "t.py:4"),
        ("json.loads", 0.3, "t.py:3"),
    ]


def advice(analyze, *lines):
    note = Note(step=9, name="host_lines", value=noted(*lines))
    waits = {"data_wait": 20 * MS, "forward": 10 * MS}
    columns = {"samples": 64}
    loader = Loader(num_workers=0)
    run = analyze(waits, records=[note], cpu_count=2, loader=loader, columns=columns)
    return choose_cure(run, 30 * MS, 20 * MS, Exposed(16 * MS, 24 * MS, "cpu")).advice


def test_what_takes_most_of_the_wait_is_all_the_advice(analyze):
    said = advice(analyze, line("copy.deepcopy", count=70))
    assert "copy.deepcopy (70.0% of the wait, t.py:7): it copies all" in said
    assert "decode or encode once" not in said
    assert "at random" not in said


def test_what_is_drawn_beside_a_copy_does_not_hide_the_copy(analyze):
    drawn = line(None, "x = x * torch.rand(1)", at=8, count=40)
    said = advice(analyze, line("copy.deepcopy", count=35), drawn)
    assert said.index("copies all that the object holds") < said.index("The code draws at random")
