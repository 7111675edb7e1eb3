"""Made STS data for tests, in SentEval's layout and in the organisers' archives."""

import io
import tarfile
import zipfile
from pathlib import Path

SICK_HEADER = "pair_ID\tsentence_A\tsentence_B\trelatedness_score\tentailment_judgment"
# Blank gold lines, a score that no float32 holds, quotes, a character outside ASCII.
STS16 = {
    "headlines": [
        ("Zürich votes", "a vote", "0.166666666666667"),
        ('"open', "b", ""),
        ("c", "d", "5"),
    ],
    "answer-answer": [("x", "y", "3.8"), ("x", "y", "3.8"), ("NA", "", "")],
}
STSB = {
    "train": [("t1", "t2", "2.11111111111111"), ("t3", "t4", "0.000")],
    "dev": [("d1", 'd2 "q', "4.250")],
    "test": [("e1", "e2", "5.000"), ("e3", "e4", "1.6")],
}
SICK = {
    "train": [("s1", "s2", "4.5", "NEUTRAL"), ("s3", "s4", "3.2", "ENTAILMENT")],
    "dev": [("s5", "s6", "1", "CONTRADICTION")],
    "test": [("s7", "s8", "4.7", "ENTAILMENT"), ("s9", "s0", "2.6", "NEUTRAL")],
}
_SICK_FILES = {"train": "train", "dev": "trial", "test": "test_annotated"}


def write(path: Path, content: str | bytes) -> Path:
    """Write a file with its folder; returns its path."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


def stsb_row(sentence1: str, sentence2: str, score: str = "2.500", extra: str = "") -> str:
    """Return a line of sts-*.csv."""
    return f"news\tfile\t2012\t0001\t{score}\t{sentence1}\t{sentence2}{extra}\n"


def year(root, gold, pairs=5, subset="headlines", name="STS16-en-test"):
    """Write a subset of a year with numbered sentences and these gold lines."""
    lines = "".join(f"left {i}\tright {i}\n" for i in range(1, pairs + 1))
    write(root / "STS" / name / f"STS.input.{subset}.txt", lines)
    write(root / "STS" / name / f"STS.gs.{subset}.txt", gold)


def _years(prefix, folder):
    files = {}
    for subset, rows in STS16.items():
        files[f"{folder}/{prefix}.input.{subset}.txt"] = "".join(f"{a}\t{b}\n" for a, b, _ in rows)
        files[f"{folder}/{prefix}.gs.{subset}.txt"] = "".join(f"{gold}\n" for *_, gold in rows)
    return files


def _stsb(folder):
    return {
        f"{folder}/sts-{split}.csv": "".join(
            f"main-news\tfile\t2016\t{number:04}\t{gold}\t{a}\t{b}\n"
            for number, (a, b, gold) in enumerate(rows)
        )
        for split, rows in STSB.items()
    }


def _sick(split):
    rows = [
        f"{number}\t{a}\t{b}\t{gold}\t{label}"
        for number, (a, b, gold, label) in enumerate(SICK[split], 1)
    ]
    return "\n".join([SICK_HEADER, *rows]) + "\n"


def write_senteval(root: Path) -> Path:
    """Write sts16, stsb and sickr in SentEval's layout; returns root."""
    files = _years("STS", "STS/STS16-en-test") | _stsb("STSBenchmark")
    files |= {f"SICK/SICK_{name}.txt": _sick(split) for split, name in _SICK_FILES.items()}
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, "utf-8", newline="\n")
    return root


def write_archives(root: Path) -> Path:
    """Write the same data as the organisers pack and name them; returns root."""
    root.mkdir(parents=True, exist_ok=True)
    year = _years("STS2016", "sts2016-english-with-gs-v1.0")
    _zip(root / "STS2016-en-test.zip", year | {"sts2016-english-with-gs-v1.0/00-readme.txt": "r"})
    for split, name in _SICK_FILES.items():
        _zip(root / f"sick_{name}.zip", {f"SICK_{name}.txt": _sick(split), "readme.txt": "r"})
    with tarfile.open(root / "Stsbenchmark.tar.gz", "w:gz") as archive:
        for name, text in _stsb("stsbenchmark").items():
            entry = tarfile.TarInfo(name)
            entry.size = len(text.encode())
            archive.addfile(entry, io.BytesIO(text.encode()))
    return root


def _zip(path, files):
    with zipfile.ZipFile(path, "w") as archive:
        for name, text in files.items():
            archive.writestr(name, text)
