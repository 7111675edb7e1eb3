"""Folders that the commands write and read back, as sources of `benchmarks.fuzz_data`."""

import io
import json
import math
import tarfile
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks import fuzz_data_tfds
from benchmarks.fuzz_data import Source, check_task, check_texts
from bertflow_jax.config import Config, FlowConfig, TrainConfig
from bertflow_jax.data.embedding_cache import embed_cached
from bertflow_jax.data.sts import load_task
from bertflow_jax.data.tfds_builders.archives import read_checksums, unpack
from bertflow_jax.data.tfds_builders.prepare import prepare
from bertflow_jax.embed_partial import PartialPart
from bertflow_jax.embed_parts import Part
from bertflow_jax.errors import BertFlowError
from bertflow_jax.evaluation.plot_data import training_curves
from bertflow_jax.evaluation.results import build_results, write_results
from bertflow_jax.evaluation.tasks import SentenceTable, evaluate
from bertflow_jax.integrations.card_metrics import read_metrics
from bertflow_jax.reproduce.kept import read_score, write_score
from bertflow_jax.training.metrics import MetricsWriter

_ROWS = np.random.default_rng(0).normal(size=(40, 4)).astype(np.float32)
_TEXTS = ["a", "b", "c"]


def sources() -> list[Source]:
    """Return the sources; those of optional packages that are not installed are left out."""
    return [
        Source("results", _results, lambda folder: read_metrics(folder / "results.json")),
        Source("metrics", _metrics, _read_metrics),
        Source("kept", _kept, _read_kept),
        Source("cache", _cache, _cache_read),
        Source("part", _part, _part_read),
        *(
            Source(f"post-{name}", _saved(name), _load_saved)
            for name in ("affine", "flow", "compose")
        ),
        Source("checkpoint", _checkpoint, _read_checkpoint),
        Source("archives", _archives, _unpack_archives),
        Source("checksums", _checksums, lambda folder: read_checksums(folder / "sums.tsv")),
        Source("tfds-sts", _tfds_sts, _read_tfds_sts),
        *fuzz_data_tfds.sources(),
    ]


def _results(folder: Path) -> None:
    task = load_task("everyday")
    table = SentenceTable.build([task], lambda texts: np.ones((len(texts), 2)))
    rows = evaluate([task], {"raw": table})
    encoder = {"path": "e", "pooling": "mean"}
    results = build_results({"encoder": encoder, "flow": None}, rows, [task], 0, {"raw": 1.0})
    # Neither the date nor the command: one seed damages one file in one way.
    results["provenance"] |= {"date": "2024-01-01T00:00:00+00:00", "command": ["evaluate.py"]}
    write_results(folder / "results.json", results)


def _metrics(folder: Path) -> None:
    with MetricsWriter(folder, tensorboard=False) as writer:
        for step in range(1, 6):
            writer.write(step, {"bits_per_dim": 4.0 / step, "loss": 1.0})


def _read_metrics(folder: Path) -> object:
    """Draw the curves, then go on writing as a resumed run does."""
    curves = training_curves(folder / "metrics.jsonl", {"fit": "bits_per_dim"})
    for step, value in curves.get("fit", []):
        assert type(step) is int
        assert math.isfinite(value)
    with MetricsWriter(folder, tensorboard=False, resume_step=3) as writer:
        writer.write(4, {"bits_per_dim": 1.0})
    curves = training_curves(folder / "metrics.jsonl", {"fit": "bits_per_dim"})
    assert curves["fit"][-1] == (4, 1.0)
    return curves


def _kept(folder: Path) -> None:
    write_score(folder / "score.json", {"key": "k", "score": 1.5, "details": {}, "made": {}})


def _read_kept(folder: Path) -> object:
    found = read_score(folder / "score.json", "k")
    assert found is None or math.isfinite(found["score"])
    return found


def _cache(folder: Path) -> None:
    embed_cached(lambda texts: _ROWS[: len(texts)], {"e": 1}, _TEXTS, folder)


def _cache_read(folder: Path) -> object:
    """What is in the cache is right, or computed again."""
    found = embed_cached(lambda texts: _ROWS[: len(texts)], {"e": 1}, _TEXTS, folder)
    np.testing.assert_array_equal(found, _ROWS[: len(_TEXTS)])
    return found


def _part_of(folder: Path) -> Part:
    return Part(0, 8, folder / "out.npy", {"rows": 8}, 4)


def _part(folder: Path) -> None:
    PartialPart(_part_of(folder)).append(_ROWS[:5])


def _part_read(folder: Path) -> object:
    """Rows that are taken over are those that were written."""
    partial = PartialPart(_part_of(folder))
    assert partial.done in (0, 5)
    partial.append(_ROWS[partial.done : 8])
    np.testing.assert_array_equal(np.load(partial.vectors, allow_pickle=False), _ROWS[:8])
    return partial


def _saved(name: str) -> Callable[[Path], None]:
    def write(folder: Path) -> None:
        from bertflow_jax.postprocess import Compose, Flow, Standardize, Whitening

        made: Any = {
            "affine": lambda: Whitening(2).fit(_ROWS),
            "compose": lambda: Compose([Standardize(), Whitening(2)]).fit(_ROWS),
            "flow": lambda: Flow(
                FlowConfig(levels=1, depth=1, width=2), train=TrainConfig(steps=2, batch_size=8)
            ).fit(_ROWS),
        }
        made[name]().save(folder / "model")

    return write


def _load_saved(folder: Path) -> object:
    from bertflow_jax.postprocess import load

    model = load(folder / "model")
    assert model.features == 4
    return model


def _checkpoint(folder: Path) -> None:
    from bertflow_jax.checkpoint import CheckpointStore, Records

    with CheckpointStore(folder) as store:
        state = {"step": 7, "features": 4}
        store.save({"flow": {"a": _ROWS}}, Records(state, Config().to_dict(), {"e": 1}, {"m": 1}))
        store.finish()


def _read_checkpoint(folder: Path) -> object:
    import jax

    from bertflow_jax.checkpoint import CheckpointStore

    store = CheckpointStore(folder)
    target = {"flow": {"a": jax.ShapeDtypeStruct(_ROWS.shape, _ROWS.dtype)}}
    arrays, records = store.newest_good(lambda step: store.restore(step, lambda _: target))
    np.testing.assert_array_equal(arrays["flow"]["a"], _ROWS)
    store.best()
    return Config.from_dict(records.config)


def _archives(folder: Path) -> None:
    with zipfile.ZipFile(folder / "a.zip", "w") as archive:
        archive.writestr("data/a.txt", "a\n" * 50, zipfile.ZIP_DEFLATED)
        archive.writestr("../escaped.txt", "x")
        archive.writestr("/escaped.txt", "x")
    with tarfile.open(folder / "a.tar.gz", "w:gz") as archive:
        entry = tarfile.TarInfo("data/a.txt")
        entry.size = 2
        archive.addfile(entry, io.BytesIO(b"a\n"))


def _unpack_archives(folder: Path) -> object:
    error = None
    for name in ("a.zip", "a.tar.gz"):
        try:
            unpack(f"http://host/{name}", folder / name, folder / f"unpacked {name}")
        except BertFlowError as found:
            error = found
    if error is not None:
        raise error
    return None


def _checksums(folder: Path) -> None:
    (folder / "sums.tsv").write_text(f"http://host/a.zip\t12\t{'0' * 64}\ta.zip\n")


def _tfds_sts(folder: Path) -> None:
    text = folder.parent / "text of tfds"
    place = text / "STSBenchmark"
    place.mkdir(parents=True)
    for split in ("train", "dev", "test"):
        rows = [f"g\tf\t2012\t{i}\t{i}.5\tleft {i}\tright {i}\n" for i in range(5)]
        (place / f"sts-{split}.csv").write_text("".join(rows))
    prepare(["stsb"], folder, text, check_sizes=False)


def _read_tfds_sts(folder: Path) -> object:
    task = check_task(load_task("stsb", f"tfds:{folder}"))
    check_texts(task.sentences)
    return json.dumps(task.notes)
