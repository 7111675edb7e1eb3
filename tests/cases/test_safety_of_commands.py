"""Secrets stay out of outputs, caches are the user's own, and files have the user's permissions."""

import os
import resource
import stat
import subprocess
import tempfile
from pathlib import Path

import jax
import numpy as np
import pytest
from documents.fast_bash import fast_bash

from bertflow_jax import Flow, FlowConfig, SentenceEncoder, Whitening
from bertflow_jax.compilation import use_compilation_cache
from bertflow_jax.data.embedding_cache import embed_cached
from bertflow_jax.errors import WorkdirError
from bertflow_jax.made_folders import folders_undone
from bertflow_jax.output_places import output_folder
from bertflow_jax.weight_output import write_safetensors
from bertflow_jax.workdir_lock import lock_workdir

ROOT = Path(__file__).resolve().parents[2]
MARK = "s3cret0marker"
SECRETS = (
    "HF_TOKEN",
    "HUGGING_FACE_HUB_TOKEN",
    "AWS_SECRET_ACCESS_KEY",
    "AWS_SESSION_TOKEN",
    "GOOGLE_API_KEY",
    "WANDB_API_KEY",
)
FITS = (
    "--config=configs/demo.py --config.data.path=given.txt --config.flow.levels=1 "
    "--config.flow.depth=1 --config.train.steps=20 --config.train.log_every=5"
)
# Each with its exit code.
COMMANDS = [
    (f"python train.py {FITS} --workdir=run", 0),
    (f"python train.py {FITS} --workdir=other --config.encoder.path=org/absent", 2),
    ("python evaluate.py --workdir=run --tasks=stsb --data_dir=data", 0),
    ("python evaluate.py --workdir=run --step=7 --tasks=stsb --data_dir=data", 2),
    ("python -m bertflow_jax.embed --workdir=run --input=given.txt --output=vectors.npy", 0),
    ("python -m bertflow_jax.embed --encoder=org/absent --input=given.txt --output=v.npy", 2),
    ("python -m bertflow_jax.push --workdir=run --repo_id=org/x --dry_run --output=pushed", 0),
    ("python -m bertflow_jax.push --workdir=run --repo_id=org/x", 2),
    ("python -m bertflow_jax.postprocess fit --method=center --input=vectors.npy --output=c", 0),
    ("python -m bertflow_jax.doctor", None),
]


@pytest.fixture(scope="module")
def ran(tmp_path_factory):
    """The folder in which everything was run, and the exit codes and outputs."""
    folder = tmp_path_factory.mktemp("safety")
    for name in ("train.py", "evaluate.py", "configs"):
        (folder / name).symlink_to(ROOT / name)
    (folder / "given.txt").write_text("".join(f"Sentence number {n}.\n" for n in range(20)))
    (folder / "data" / "STSBenchmark").mkdir(parents=True)
    rows = "".join(f"g\tf\ty\ti\t{gold}\tA cat {gold}.\tA dog.\n" for gold in (1, 2, 3))
    (folder / "data" / "STSBenchmark" / "sts-test.csv").write_text(rows)
    given = " ".join(f"{name}={MARK}{number}" for number, name in enumerate(SECRETS))
    given += f" XDG_CACHE_HOME={folder}/cache HF_HOME={folder}/hf HF_HUB_OFFLINE=1 HF_DEBUG=1"
    given += f" HF_ENDPOINT=http://127.0.0.1:9 BERTFLOW_COMPILATION_CACHE={folder}/compiled"
    done: list[subprocess.CompletedProcess[str]] = []
    before = os.umask(0o027)
    try:
        with fast_bash() as run:
            for line, _ in COMMANDS:
                done.append(run(f"env -u JAX_COMPILATION_CACHE_DIR {given} {line}", folder))
    finally:
        os.umask(before)
    return folder, done


def test_no_secret_in_what_is_printed(ran):
    """A token in an error of the Hub's client, or in the doctor's list of variables."""
    _, done = ran
    for (line, code), ended in zip(COMMANDS, done, strict=True):
        assert code in (None, ended.returncode), f"{line}\n{ended.stdout}"
        assert MARK not in ended.stdout, line
        assert "Traceback" not in ended.stdout, line
    assert "HF_TOKEN" in done[-1].stdout  # the doctor says that it is set


def test_no_secret_in_any_file(ran):
    """The environment written into a checkpoint, an event file, a report or a model card."""
    folder, _ = ran
    files = [path for path in folder.rglob("*") if path.is_file() and not path.is_symlink()]
    kinds = {path.name.partition(".")[0] for path in files}
    assert {"events", "results", "report", "metrics", "README", "flow", "vectors"} <= kinds
    assert [path for path in files if MARK.encode() in path.read_bytes()] == []


def test_files_have_the_permissions_of_the_users_mask(ran):
    """flow.safetensors and model.safetensors were 0600, unreadable to those they are shared with."""
    folder, _ = ran
    shared = [
        path
        for place in ("run", "pushed", "c")
        for path in (folder / place).rglob("*")
        if path.suffix in (".safetensors", ".json", ".md", ".html", ".jsonl")
    ]
    names = {path.name for path in shared}
    assert {"flow.safetensors", "model.safetensors", "postprocess.safetensors"} <= names
    assert {path.name: oct(stat.S_IMODE(path.stat().st_mode)) for path in shared} == dict.fromkeys(
        names, "0o640"
    )


def test_caches_are_the_users_own(ran):
    """Texts' vectors and programs that others could read, or change for their own."""
    folder, _ = ran
    for cache in (folder / "cache" / "bertflow_jax" / "embeddings", folder / "compiled"):
        assert any(cache.iterdir())
        assert oct(stat.S_IMODE(cache.stat().st_mode)) == "0o700"


def test_no_temporary_file_is_left(ran):
    """What was unfinished, under any of the names that are used for it."""
    folder, _ = ran
    left = [
        path
        for path in folder.rglob("*")
        if any(
            word in path.name for word in (".tmp", "unfinished", ".partial", "orbax-checkpoint-")
        )
    ]
    assert left == []


def _vectors(texts):
    return np.asarray([[len(text), 1.0] for text in texts], np.float32)


def test_an_entry_that_others_could_write_is_not_used(tmp_path, caplog):
    """Numbers of another user were taken for the encoder's own, and the folder stayed open."""
    texts = ["one", "three"]
    embed_cached(lambda given: _vectors(given) * 666, {"sha": "x"}, texts, tmp_path)
    folder = tmp_path / "embeddings"
    folder.chmod(0o777)
    found = embed_cached(_vectors, {"sha": "x"}, texts, tmp_path)
    np.testing.assert_array_equal(found, _vectors(texts))
    assert "computed again: every user of this machine can write there" in caplog.text
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    again = embed_cached(lambda given: _vectors(given) * 0, {"sha": "x"}, texts, tmp_path)
    np.testing.assert_array_equal(again, _vectors(texts))


@pytest.mark.skipif(os.geteuid() != 0, reason="only the superuser can be two users")
def test_a_cache_of_another_user_is_refused():
    """A PermissionError of chmod, after which nobody knew what to set."""
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place) / "embeddings"
        folder.mkdir()
        os.chown(folder, 12345, 12345)
        os.chmod(place, 0o755)
        folder.chmod(0o777)
        os.seteuid(65534)
        try:
            with pytest.raises(WorkdirError, match=r"cannot be made private .* folder of your own"):
                embed_cached(_vectors, {"sha": "x"}, ["one"], place)
        finally:
            os.seteuid(0)


def test_programs_that_others_could_write_are_not_run(
    tmp_path, monkeypatch, caplog, no_compilation_cache
):
    """What lies in the cache of compiled programs is run as it is."""
    folder = tmp_path / "programs"
    folder.mkdir()
    folder.chmod(0o777)
    monkeypatch.setenv("BERTFLOW_COMPILATION_CACHE", str(folder))
    use_compilation_cache()
    assert jax.config.jax_compilation_cache_dir is None
    assert "are not used: every user of this machine can write there" in caplog.text


def test_a_failed_write_leaves_the_old_file(tmp_path):
    """Half a file in the place of a whole one, and a temporary one beside it."""
    path = tmp_path / "a.safetensors"
    write_safetensors(path, {"a": np.ones(3, np.float32)})
    before = path.read_bytes()
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1000, limits[1]))
    try:
        with pytest.raises(WorkdirError, match=r"a\.safetensors cannot be written"):
            write_safetensors(path, {"a": np.zeros(3000, np.float32)})
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert path.read_bytes() == before
    assert os.listdir(tmp_path) == ["a.safetensors"]


def test_saving_follows_the_mask(tmp_path):
    """The same from Python: every kind that is saved."""
    before = os.umask(0o007)
    try:
        rows = np.random.default_rng(0).normal(size=(40, 4)).astype(np.float32)
        Whitening().fit(rows).save(tmp_path / "w")
        Flow(FlowConfig(levels=1, depth=1, width=4)).fit(rows).save(tmp_path / "f")
        SentenceEncoder.from_pretrained("mini_bert").save_pretrained(tmp_path / "e")
    finally:
        os.umask(before)
    files = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert {oct(stat.S_IMODE(path.stat().st_mode)) for path in files} == {"0o660"}


def test_folders_of_a_refused_command(tmp_path):
    """Empty folders stayed; what is in use, or holds something, must stay."""
    (tmp_path / "there").mkdir()
    held = lock_workdir(tmp_path / "held")

    def refused():
        for name in ("there", "new/below", "full", "held", "released"):
            output_folder(tmp_path / name)
        (tmp_path / "full" / "notes.txt").write_text("mine")
        with lock_workdir(tmp_path / "released"):
            held.__enter__()
        raise KeyError

    with pytest.raises(KeyError), folders_undone():
        refused()
    assert sorted(os.listdir(tmp_path)) == ["full", "held", "there"]
    held.__exit__(None, None, None)
    with folders_undone():
        output_folder(tmp_path / "kept")
    assert (tmp_path / "kept").is_dir()
