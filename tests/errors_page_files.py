"""The files that docs/errors.md speaks of."""

import gzip
import json
import os
from pathlib import Path

import numpy as np
from encoders_damaged import damaged_encoders

from bertflow_jax import Flow, FlowConfig, TrainConfig, Whitening
from bertflow_jax.checkpoint import CheckpointStore, Records


def make_files(folder: Path) -> None:
    """Write them into a folder that is there."""
    for name in (
        "folder",
        "full",
        "site",
        "locked",
        "linked",
        "links",
        "linked_run",
        "piped_run",
        ".mine.npy.partial",
    ):
        (folder / name).mkdir()
    _links(folder)
    (folder / "done" / "checkpoints" / "10" / "state").mkdir(parents=True)
    (folder / ".mine.npy.partial" / "notes.txt").write_text("mine")
    texts = {
        "full/notes.txt": "mine",
        "site/index.json": '{"precious": 1}',
        "locked/.lock": "mylock",
        "empty.txt": "",
        "one.txt": "one line\n",
        "number.py": "def get_config():\n    return 3\n",
        "given.txt": "".join(f"Sentence number {n}.\n" for n in range(20)),
        "rows.jsonl": '{"text": "a"}\n{"other": "b"}\n',
        "null.jsonl": '{"text": "a"}\n{"text": null}\n',
        "twice.csv": "text,text\na,b\n",
        "twice.jsonl": '{"text": "a", "text": "b"}\n',
        "zero.csv": "0,n\na,1\n",
        "text.npy": "hello",
        "notes.md": "# A title\nA line.\n",
        "blank.txt": "a line\n\nanother\n",
        "table.csv": "id,text\n1,a line\n",
        "blank.csv": "id,text\n1,a line\n2,\n",
        "uneven.csv": "id,text\n1,a\n2\n",
        "small/STSBenchmark/sts-test.csv": "".join(
            f"g\tf\ty\ti\t{gold}\tA cat.\tA {word}.\n"
            for gold, word in ((1, "car"), (2, "dog"), (5, "cat"))
        ),
        "small/QNLI/dev.tsv": "index\tquestion\tsentence\tlabel\n"
        "0\tWho?\tA cat.\tentailment\n1\tWho?\tA car.\tnot_entailment\n",
        "both/STS16-en-test/STS.input.headlines.txt": "A cat.\tA dog.\n",
        "both/STS16-en-test/STS.gs.headlines.txt": "1\n",
        "both/STS16-en-test/STS2016.gs.headlines.txt": "4\n",
    }
    for name, text in texts.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text, "utf-8")
    (folder / "latin.txt").write_bytes(b"caf\xe9 au lait\nx\n")
    (folder / "mac.csv").write_bytes(b"text,n\ra,1\r")
    (folder / "bad.txt.gz").write_bytes(b"\x1f\x8bno gzip")
    (folder / "zipped.txt").write_bytes(gzip.compress(b"a line\nanother\n"))
    damaged_encoders(folder)
    vectors = np.random.default_rng(0).normal(size=(64, 8)).astype(np.float32)
    np.save(folder / "given.npy", vectors)
    np.save(folder / "nan.npy", vectors * np.nan)
    far = vectors.astype(np.float64)
    far[3, 1] = 1e100
    np.save(folder / "far.npy", far)
    white = Whitening().fit(vectors)
    for name in ("damaged", "other"):
        white.save(folder / name)
    arrays = folder / "damaged" / "postprocess.safetensors"
    arrays.write_bytes(arrays.read_bytes()[:300])
    kind = folder / "other" / "postprocess.json"
    kind.write_text(kind.read_text("utf-8").replace('"whitening"', '"center"'), "utf-8")
    flow = Flow(FlowConfig(levels=1, depth=1, width=4), train=TrainConfig(steps=1)).fit(vectors)
    flow.save(folder / "deep")
    deep = folder / "deep" / "flow_config.json"
    deep.write_text(deep.read_text("utf-8").replace('"depth": 1', '"depth": 2'), "utf-8")
    with CheckpointStore(folder / "broken") as store:
        store.save({"flow": {"a": vectors}}, Records({"step": 4}, {}, {}, {}))
    (folder / "broken" / "checkpoints" / "4" / "state" / "metadata").write_text("{}", "utf-8")
    steps = folder / "pointing" / "checkpoints"
    steps.mkdir(parents=True)
    (steps / "4").symlink_to(folder / "broken" / "checkpoints" / "4")
    (folder / "cut.npy").write_bytes((folder / "given.npy").read_bytes()[:1000])
    np.save(folder / "equal.npy", np.ones((50, 8), np.float32))
    (folder / "digits.json").write_text('{"rows": ' + "9" * 5000 + "}", "utf-8")
    (folder / "damaged_parts").mkdir()
    np.save(folder / "damaged_parts" / "part-00000-of-00001.npy", vectors)
    listed = {"file": "part-00000-of-00001.npy", "start": 0, "stop": 64, "sha256": "0" * 64}
    (folder / "damaged_parts" / "index.json").write_text(json.dumps({"parts": [listed]}))


def _links(folder: Path) -> None:
    (folder / "linked" / ".lock").symlink_to("../one.txt")
    (folder / "circle").symlink_to("circle")
    (folder / "lost" / "x").mkdir(parents=True)
    (folder / "lost" / "a.parquet").symlink_to("none")
    (folder / "lost" / "x" / "self").symlink_to(".")
    for name in ("results.json", "index.json", "postprocess.json", "table2.json"):
        (folder / "links" / name).symlink_to("../one.txt")
    (folder / "linked_run" / "metrics.jsonl").symlink_to("../one.txt")
    os.mkfifo(folder / "piped_run" / "metrics.jsonl")
    (folder / "link.npy").symlink_to("one.txt")
    (folder / "link.png").symlink_to("none.png")
