"""What to do about the operations that the making of batches was seen in, by their names."""

import re
from collections.abc import Sequence
from typing import NamedTuple

from lightning_gpuprof.analysis.run.host_lines import HostLines, LineCount
from lightning_gpuprof.analysis.run.line_times import LEAST_COUNT
from lightning_gpuprof.records.phases import Phase
from lightning_gpuprof.units import percent

MIN_FRAC = 0.2
"""An operation with less of the wait is one of many: a fifth, as `findings/grade.py` calls
critical."""
MOST_TOLD = 3

_GROWN = re.compile(
    r"([\w.]+(?:\[[^]]*\])?)\s*=\s*(?:torch|np|numpy)\."
    r"(?:cat|concat|concatenate|append|hstack|vstack)\(\s*[\[(]?\s*\1\s*,"
)
_JOIN = (
    "each turn copies all that came before: append the parts to a list, and join that once at the "
    "end."
)
_CALLED = (
    (
        r"copy\.(deepcopy|_deepcopy\w*|_reconstruct)",
        "it copies all that the object holds, arrays too: take the part that is used first, and "
        "copy only what is changed (copy.copy of what holds it, .clone() of that part).",
    ),
    (
        r"(_strptime|_pydatetime|datetime|dateutil|calendar|arrow|pendulum)\.|pandas\.to_datetime",
        "dates are parsed from text each time: parse each once, before training, and keep numbers.",
    ),
    (
        r"(re|regex|_regex|sre_\w+|string|difflib|unicodedata)\.",
        "texts are searched each time: take them apart once, before training, and keep the parts "
        "or their numbers.",
    ),
    (
        r"(json|simplejson|ujson|orjson|ast|yaml|csv|_csv|xml|lxml|bs4|html|pickle|_pickle|msgpack)"
        r"\.",
        "text or bytes are parsed each time: parse once, before training, and keep the values, "
        "best as arrays.",
    ),
    (
        r"(PIL|torchvision)\.(resize\w*|thumbnail|reduce|transform|rotate|crop|affine|perspective|"
        r"warp\w*)|cv2\.(resize|warp\w*|remap)|skimage\.|scipy\.(zoom|rotate|affine_transform|"
        r"map_coordinates)",
        "pictures are resampled one by one: store them at the size that is used (what comes before "
        "a random crop can be done once), and do what is random to a whole batch of tensors.",
    ),
    (
        r"(PIL|cv2|imageio|tifffile|torchvision|rasterio|pydicom|nibabel)\.",
        "pictures are decoded or changed one by one: decode them once, before training, at the "
        "size that is used, and keep bytes (uint8).",
    ),
    (
        r"pandas\.",
        "rows of a DataFrame are slow to take one by one: make arrays of its columns once "
        "(to_numpy()), and group or join before training.",
    ),
    (
        r"(zipfile|gzip|bz2|lzma|tarfile|zlib|_compression|lz4|zstandard|blosc)\.",
        "it is unpacked each time: unpack once, before training, or in pieces as small as what is "
        "read.",
    ),
    (
        r"(wave|soundfile|torchaudio|librosa|av|decord)\.(open|load|read\w*|info)|h5py\.|zarr\.|"
        r"netCDF4\.|xarray\.|(io|_io|pathlib|mmap)\.|"
        r"numpy\.(load\w*|fromfile|genfromtxt|read_array|memmap)|torch\.load",
        "files are opened and read for each sample: read only the piece that is used (seek, "
        "np.load(..., mmap_mode='r')), keep files open, or read them once into memory.",
    ),
    (
        r"(glob|fnmatch|os|posixpath|ntpath|genericpath|posix|stat)\.",
        "the file system is asked each time: list the files once, in __init__.",
    ),
    (
        r"numpy\.(choice|permutation|shuffle)|random\.(choices|shuffle)",
        "drawing goes through all that may be drawn: for weights keep their running sum and look "
        "a random number up in it (np.searchsorted), without weights draw integers.",
    ),
    (
        r"(numpy|scipy|torch)\.(convolve\w*|correlate\w*|gaussian\w*|conv[123]d|uniform_filter\w*|"
        r"median_filter|lfilter|sosfilt\w*)",
        "a filter costs each place times its width: by FFT (scipy.signal.fftconvolve), along one "
        "dimension after the other where it is separable, or on a coarser grid it costs less.",
    ),
    (
        r"(librosa|scipy|numpy|torch|torchaudio)\.(\w*fft\w*|stft|istft|spectrogram|mel\w*|mfcc)",
        "spectra are taken one by one: take them once, before training, or of a whole batch on the "
        "device.",
    ),
    (
        r"numpy\.(sort|argsort|lexsort|unique|median|percentile|quantile|_\w*quantile\w*)|"
        r"torch\.(sort|argsort|unique)",
        "it is sorted for each sample: sort once where the values stay the same, and for the few "
        "largest use partition.",
    ),
    (
        r"(scipy|sklearn)\.",
        "it is computed for each sample: once, before training, where its input stays the same.",
    ),
    (
        r"(networkx|igraph|rdkit|dgl|torch_geometric)\.",
        "graphs are walked in Python: make arrays of their nodes and edges once, before training.",
    ),
    (
        r"(transformers|tokenizers|sentencepiece|nltk|spacy|tiktoken)\.",
        "texts are cut into tokens each time: once, before training, and keep the numbers; or a "
        "whole batch in one call, in the collate function.",
    ),
    (
        r"(sqlite3|_sqlite3|lmdb|sqlalchemy|psycopg\w*|pymongo|redis|datasets|pyarrow|duckdb)\.",
        "rows are asked for one by one: ask for a whole batch at once (__getitems__).",
    ),
    (
        r"numpy\.(array|asarray|stack|vstack|hstack|concatenate)",
        "arrays are made of many small things: keep one array of all samples, and index it.",
    ),
)
"""By what a line was in, as `HostLines` names it; the first that fits."""

_WRITTEN = (
    (
        r"\.execute(many)?\(",
        "rows are asked for one by one: ask for a whole batch at once (__getitems__).",
    ),
    (
        r"\b(conv[123]d|gaussian_blur|GaussianBlur)\(",
        "a filter costs each place times its width: along one dimension after the other where it "
        "is separable, by FFT, or on a coarser grid it costs less, and in one call of a batch.",
    ),
    (
        r"\btorch\.(tensor|as_tensor|FloatTensor|LongTensor)\(",
        "a list is read number by number: keep arrays or tensors from the start, and join lists of "
        "arrays with np.stack first.",
    ),
    (
        r"/\s*25[56]\b|\b(Normalize|normalize|to_tensor|ToTensor)\(",
        "hand bytes over as they are (uint8), and scale a whole batch in one operation, on the "
        "device in on_after_batch_transfer; in NumPy constants of np.float32 keep it from doubles.",
    ),
    (
        r"^(?!.*\bfor\b).*\bin self\.\w+",
        "where a list is gone through for one of its items, a set or dict finds it at once.",
    ),
)
"""By the line's text, where it ran itself or an operator of torch's."""


class Seen(NamedTuple):
    """An operation, and how much of the wait it was seen in."""

    name: str
    frac: float
    place: str
    cure: str


def operations(lines: HostLines | None) -> tuple[Seen, ...]:
    """Return what the making of batches was seen in most and has a cure, the longest first.

    Args:
        lines: Samples of whoever makes the batches.
    """
    whole = 0 if lines is None else lines.by_phase.get(Phase.DATA_WAIT.value, 0)
    found: dict[str, list[LineCount]] = {}
    for one in [] if lines is None else lines.of(Phase.DATA_WAIT):
        cure = cure_of(one)
        if cure is not None:
            found.setdefault(cure, []).append(one)
    seen = (_seen(ones, whole, cure) for cure, ones in found.items() if _count(ones) >= LEAST_COUNT)
    ranked = sorted(seen, key=lambda one: -one.frac)
    return tuple(one for one in ranked[:MOST_TOLD] if one.frac >= MIN_FRAC)


def cure_of(one: LineCount) -> str | None:
    """Return what to do about what a line was in; None where no operation is known.

    >>> line = LineCount("data_wait", "t.py", 7, "f", "x = deepcopy(y)", "copy.deepcopy", None, 9)
    >>> cure_of(line)[:16]
    'it copies all th'
    """
    if _GROWN.search(one.source):
        return _JOIN
    table, text = (_CALLED, one.callee) if one.callee else (_WRITTEN, one.source)
    match = re.match if one.callee else re.search
    return next((cure for pattern, cure in table if match(pattern, text)), None)


def told(seen: Sequence[Seen], of: str = "the wait") -> str:
    """Return operations as sentences, as shares of what was looked at."""
    return " ".join(
        f"{one.name} ({percent(one.frac)} of {of}, {one.place}): {one.cure}" for one in seen
    )


def _count(ones: Sequence[LineCount]) -> int:
    return sum(one.count for one in ones)


def _seen(ones: Sequence[LineCount], whole: int, cure: str) -> Seen:
    most = max(ones, key=lambda one: one.count)
    name = most.callee or f"`{most.source.split('#')[0].strip()}`"
    return Seen(name, _count(ones) / whole, f"{most.file}:{most.line}", cure)
