"""Files of texts, pairs and vectors, as sources of `benchmarks.fuzz_data`."""

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.fuzz_data import Source, check_numbers, check_task, check_texts, write_file
from bertflow_jax.config import DataConfig
from bertflow_jax.data.glue import load_glue_task
from bertflow_jax.data.rows import open_rows
from bertflow_jax.data.sts import load_task
from bertflow_jax.data.supervision import load_training_pairs
from bertflow_jax.data.text import load_text
from bertflow_jax.postprocess.vector_files import open_vectors
from bertflow_jax.supervision_config import SupervisionConfig

_PAIRS = [
    ("A man sleeps.", "A person rests.", "4.5"),
    ('"open quote', "NA", "0.000"),
    ("caf\xe9 \u4e2d\u6587", "nothing", "5"),
    ("It rains.", "", "2.25"),
    ("It rains.", "It is dry.", "1.0"),
]
_NLI = ("entailment", "neutral", "-", "contradiction", "neutral")


def lines(header: str, rows: Iterable[str]) -> str:
    """Join a header, unless it is "", and rows."""
    return "".join(f"{line}\n" for line in (*([header] if header else []), *rows))


def _sts(folder: Path) -> None:
    rows = [f"g\tf\t2012\t{i}\t{score}\t{a}\t{b}" for i, (a, b, score) in enumerate(_PAIRS)]
    write_file(folder / "STSBenchmark" / "sts-test.csv", lines("", rows))


def _year(folder: Path) -> None:
    place = folder / "STS" / "STS15-en-test"
    write_file(place / "STS.input.images.txt", lines("", (f"{a}\t{b}" for a, b, _ in _PAIRS)))
    write_file(place / "STS.gs.images.txt", "4.5\n\n5\r\n2.25\n1.0\n")


def _sick(folder: Path) -> None:
    header = "pair_ID\tsentence_A\tsentence_B\trelatedness_score\tentailment_judgment"
    rows = [f"{i}\t{a}\t{b}\t{score}\tNEUTRAL" for i, (a, b, score) in enumerate(_PAIRS)]
    write_file(folder / "SICK" / "SICK_test_annotated.txt", lines(header, rows))


def _sick_12(folder: Path) -> None:
    extra = "".join(f"\tx{i}" for i in range(6))
    header = f"pair_ID\tsentence_A\tsentence_B\tentailment_label\trelatedness_score{extra}"
    rows = [
        f"{i}\t{a}\t{b}\tNEUTRAL\t{score}{extra}\t{('TEST', 'TRAIN')[i % 2]}"
        for i, (a, b, score) in enumerate(_PAIRS)
    ]
    write_file(folder / "SICK" / "SICK.txt", lines(f"{header}\tSemEval_set", rows))


def _glue(folder: Path) -> None:
    for name, header, row in (
        ("QNLI", "index\tquestion\tsentence\tlabel", "{i}\t{a}\t{b}\tentailment"),
        ("MRPC", "Quality\t#1 ID\t#2 ID\t#1 String\t#2 String", "1\t{i}\t{i}\t{a}\t{b}"),
        (
            "QQP",
            "id\tqid1\tqid2\tquestion1\tquestion2\tis_duplicate",
            "{i}\t{i}\t{i}\t{a}\t{b}\t0",
        ),
        ("STS-B", "index\tsentence1\tsentence2\tscore", "{i}\t{a}\t{b}\t{score}"),
    ):
        rows = [row.format(i=i, a=a, b=b, score=s) for i, (a, b, s) in enumerate(_PAIRS)]
        write_file(folder / name / "dev.tsv", lines(header, rows))


def _read_glue(folder: Path) -> object:
    """Read the damaged one and the others: one file's damage is no other's."""
    error = None
    for name, high in (("qnli", 1.0), ("mrpc", 1.0), ("qqp", 1.0), ("stsb", 5.0)):
        try:
            check_task(load_glue_task(name, folder, ["dev"]), high)
        except ValueError as found:
            assert error is None, "one damaged file of GLUE, and two tasks that cannot be read"
            error = found
    if error is not None:
        raise error
    return None


def _labelled(name: str, loss: str) -> Source:
    """Return pairs with a class or a score in a file of this name."""

    def write(folder: Path) -> None:
        golds = _NLI if loss == "siamese" else [score for *_, score in _PAIRS]
        rows = [(a, b, gold) for (a, b, _), gold in zip(_PAIRS, golds, strict=True)]
        names = ("sentence1", "sentence2", "label")
        if ".jsonl" in name:
            content = lines("", (json.dumps(dict(zip(names, row, strict=True))) for row in rows))
        elif ".csv" in name:
            quoted = (
                ",".join(f'"{text.replace(chr(34), chr(34) * 2)}"' for text in r) for r in rows
            )
            content = lines(",".join(names), quoted)
        else:
            header = "\t".join(("split", *names))
            content = lines(header, ("\t".join(("train", *row)) for row in rows))
        write_file(folder / name, content)

    def read(folder: Path) -> object:
        config = SupervisionConfig(path=str(folder / name), score_range="0,5")
        pairs = load_training_pairs(config, loss)
        assert len(pairs.sentences1) == len(pairs.sentences2) == len(pairs.targets)
        check_texts((*pairs.sentences1, *pairs.sentences2))
        check_numbers(pairs.targets.tolist(), 0, 2 if loss == "siamese" else 1)
        return pairs

    return Source(f"{loss}-{name}", write, read)


def _flow_text(name: str, **fields: Any) -> Source:
    """Return text for a flow in a file of this name."""

    def write(folder: Path) -> None:
        if ".tsv" in name:
            content = lines("s1\ts2\tscore", ("\t".join(row) for row in _PAIRS))
        elif ".csv" in name:
            content = 's1,s2\n"a, ""b""","c\n\nd"\ne,f\n'
        else:
            content = lines("", (a for a, *_ in _PAIRS))
        write_file(folder / name, content)

    def read(folder: Path) -> object:
        corpus = load_text(DataConfig(path=str(folder / name), **fields))
        check_texts(text for example in corpus.examples for text in example)
        json.dumps(corpus.manifest, allow_nan=False)
        return corpus

    return Source(f"text-{name}", write, read)


def _rows(name: str, column: str = "", id_column: str = "") -> Source:
    """Return rows for embedding in a file of this name."""

    def write(folder: Path) -> None:
        records = [{"id": i, "text": a, "other": b} for i, (a, b, _) in enumerate(_PAIRS)]
        if ".parquet" in name:
            import pyarrow
            import pyarrow.parquet

            pyarrow.parquet.write_table(pyarrow.Table.from_pylist(records), folder / name)
            return
        if ".jsonl" in name:
            content = lines("", map(json.dumps, records))
        elif ".txt" in name:
            content = lines("", (record["text"] for record in records))
        elif ".csv" in name:
            content = 'id,text\n0,"a, ""b"""\n1,c\n'
        else:
            content = lines("id\ttext", (f"{r['id']}\t{r['text']}" for r in records))
        write_file(folder / name, content)

    def read(folder: Path) -> object:
        rows = open_rows(folder / name, column=column, id_column=id_column)
        known = rows.survey()
        found = list(rows)
        check_texts(row.text for row in found)
        assert len(found) == known.rows
        assert sum(len(block.texts) for block in rows.blocks(known)) == known.rows
        return found

    return Source(f"rows-{name}", write, read)


def _npy(folder: Path) -> None:
    np.save(folder / "u.npy", np.arange(32, dtype=np.float32).reshape(8, 4))


def _vectors_parquet(folder: Path) -> None:
    import pyarrow
    import pyarrow.parquet

    rows = [{"id": i, "vector": [float(i), 1.0, 2.0]} for i in range(8)]
    pyarrow.parquet.write_table(pyarrow.Table.from_pylist(rows), folder / "u.parquet")


def _parts(folder: Path) -> None:
    parts = []
    for start, stop in ((0, 5), (5, 8)):
        name = f"part-{start:05d}.npy"
        np.save(folder / name, np.ones((stop - start, 4), np.float32))
        parts.append({"file": name, "start": start, "stop": stop})
    (folder / "index.json").write_text(json.dumps({"parts": parts}))


def read_vectors(folder: Path, name: str) -> object:
    """Read vectors and check that all rows come, finite and of one width."""
    vectors = open_vectors(folder / name)
    rows = 0
    for block in vectors.blocks():
        assert block.first == rows
        assert block.vectors.shape[1] == vectors.features
        assert block.vectors.dtype.kind in "fiu"
        assert np.isfinite(block.vectors).all()
        rows += len(block.vectors)
    assert rows == vectors.rows > 0
    return rows


SOURCES = (
    Source("sts-b", _sts, lambda folder: check_task(load_task("stsb", folder))),
    Source("sts-year", _year, lambda folder: check_task(load_task("sts15", folder))),
    Source("sick", _sick, lambda folder: check_task(load_task("sickr", folder))),
    Source("sick-12", _sick_12, lambda folder: check_task(load_task("sickr", folder))),
    Source("glue", _glue, _read_glue),
    _labelled("snli.jsonl", "siamese"),
    _labelled("AllNLI.tsv", "siamese"),
    _labelled("nli.csv.gz", "siamese"),
    _labelled("scores.jsonl.gz", "regression"),
    _labelled("scores.csv", "regression"),
    _flow_text("a.txt"),
    _flow_text("a.txt.gz"),
    _flow_text("a.tsv", columns="s1,s2"),
    _flow_text("a.csv", columns="s1,s2"),
    _rows("r.txt.gz"),
    _rows("r.jsonl", id_column="id"),
    _rows("r.tsv", "text", "id"),
    _rows("r.csv", "text", "id"),
    _rows("r.parquet", "text", "id"),
    Source("vectors-npy", _npy, lambda folder: read_vectors(folder, "u.npy")),
    Source("vectors-parquet", _vectors_parquet, lambda folder: read_vectors(folder, "u.parquet")),
    Source("vectors-parts", _parts, lambda folder: read_vectors(folder, ".")),
)
