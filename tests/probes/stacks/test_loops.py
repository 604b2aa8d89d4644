import warnings

import pytest

from lightning_gpuprof.probes.stacks.loops import goes_on, loop_line

PROGRAM = """\
def forward(self, x):
    for part in self.parts(
        x
    ):
        while part.any():
            part = part - 1
        x = x + part

        def inner(y):
            return y + 1
    return [
        self.cell(one)
        for one in x
    ]
"""


def test_the_innermost_loop_of_the_lines_own_function_is_found(tmp_path):
    file = tmp_path / "program.py"
    file.write_text(PROGRAM)
    lines = {number: loop_line(str(file), number) for number in range(1, 15)}
    assert [number for number, at in lines.items() if at is None] == [1, 2, 3, 4, 9, 10]
    # A `while` asks each time, what a `for` goes through is computed once.
    assert (lines[5], lines[6], lines[7]) == (5, 5, 2)
    assert (lines[12], lines[13], lines[14]) == (11, 11, 11)


def test_without_the_programs_text_there_is_no_loop(tmp_path):
    broken = tmp_path / "broken.py"
    broken.write_text("for x in (:\n    pass\n")
    assert loop_line(str(broken), 2) is None
    assert loop_line(str(tmp_path / "gone.py"), 1) is None


@pytest.mark.parametrize(
    "body",
    [
        "x = block(x)",
        "x += block(x)",
        "x = x + self.feed(self.norm(x))",
        "y = block(x)\n    x = x + y",
        "h, c = self.cell(part, (h, c))",
        "self.h = self.cell(part, self.h)",
        "h = h.tanh() * part",
        "if part:\n        x = F.relu(layer(x))",
        "x[part] = block(x[part - 1])",
        "x[:, part] = self.cell(y[:, part], x[:, part - 1])",
        "self.h[part + 1] = self.cell(self.h[part])",
        "x[part] = block(x)",
        "states.append(self.cell(part, states[-1]))",
    ],
)
def test_a_loop_that_gives_a_call_what_the_turn_before_gave_goes_on(tmp_path, body):
    assert goes_on(written(tmp_path, body), 1)


@pytest.mark.parametrize(
    "body",
    [
        "out.append(head(x))",
        "total = total + loss(part, x)",
        "total += loss(part)",
        "total = total + loss(part)\n    self.log('total', total)",
        "out = torch.cat([out, head(part)])",
        "y = head(part)\n    y = y.relu()\n    out.append(y)",
        "state = state * 0.9 + x[part]",
        "out.append([head(one) for one in part])",
        "out[part] = block(x[part])",
        "x[part] = block(x[part])",
        "x[part] = x[part - 1] * 0.9 + head(y[part])",
        "rows = []\n    rows.append(head(part))\n    out.append(mixed(rows))",
    ],
)
def test_turns_that_need_nothing_of_each_other_but_a_sum_do_not_go_on(tmp_path, body):
    assert not goes_on(written(tmp_path, body), 1)


def written(folder, body):
    file = folder / "program.py"
    file.write_text(f"for part in parts:\n    {body}\n")
    return str(file)


def test_what_is_odd_in_a_program_is_not_told_again(tmp_path):
    file = written(tmp_path, 'x = split("\\d", part)')
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert loop_line(file, 2) == 1
