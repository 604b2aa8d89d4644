from lightning_gpuprof.probes.stacks.loops import loop_line

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
