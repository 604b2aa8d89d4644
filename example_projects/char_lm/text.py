"""Real text that every machine has: the source of the Python standard library."""

import re
import sysconfig
import unicodedata
from pathlib import Path

import torch
from torch import Tensor
from torch.utils.data import Dataset

VOCABULARY = 128  # ASCII; anything else becomes "?"


def source_files() -> list[Path]:
    folder = Path(sysconfig.get_paths()["stdlib"])
    return sorted(path for path in folder.glob("*.py") if path.stat().st_size > 8_000)


def clean(path: Path) -> str:
    """Read a file, normalise its characters and its spaces (not the indentation)."""
    text = unicodedata.normalize("NFKC", path.read_text(encoding="utf-8", errors="replace"))
    return "\n".join(re.sub(r"(?<=\S)\s+", " ", line).rstrip() for line in text.splitlines())


def encode(text: str) -> Tensor:
    codes = text.encode("ascii", errors="replace")
    return torch.frombuffer(bytearray(codes), dtype=torch.uint8).long()


class Windows(Dataset[tuple[Tensor, Tensor]]):
    """Windows of characters and the characters that follow them.

    Each item opens its file, cleans it and encodes it, then takes one window: convenient to
    write, and the same work again for every window of the same file.
    """

    def __init__(self, files: list[Path], *, length: int, count: int) -> None:
        self.files, self.length, self.count = files, length, count

    def __len__(self) -> int:
        return self.count

    def codes(self, index: int) -> Tensor:
        return encode(clean(self.files[index % len(self.files)]))

    def __getitem__(self, index: int) -> tuple[Tensor, Tensor]:
        codes = self.codes(index)
        start = (index * 7919) % (len(codes) - self.length - 1)
        window = codes[start : start + self.length + 1]
        return window[:-1], window[1:]


class EncodedOnce(Windows):
    """The same windows; every file is cleaned and encoded once, up front."""

    def __init__(self, files: list[Path], *, length: int, count: int) -> None:
        super().__init__(files, length=length, count=count)
        self.encoded = [encode(clean(path)) for path in files]

    def codes(self, index: int) -> Tensor:
        return self.encoded[index % len(self.encoded)]
