"""Flags of `bertflow_jax.embed` and `bertflow_jax.export` with values that they cannot have."""

import numpy as np
import pytest
from encoder.conftest import write_bert
from forked_commands import run_commands

from bertflow_jax import SentenceEncoder
from bertflow_jax.errors import WorkdirError
from bertflow_jax.postprocess.apply_files import ApplyOptions, run_apply

# Flags besides those of a good command line (a later one replaces an earlier one) -> what is said.
EMBED = {
    ("--batch_size=0",): "flag --batch_size=0",
    ("--batch_size=-1",): "flag --batch_size=-1",
    ("--batch_size=1.5",): "flag --batch_size=1.5",
    ("--batch_size=x",): "flag --batch_size=x",
    ("--batch_size=",): "flag --batch_size=",
    ("--max_length=x",): "flag --max_length=x",
    ("--max_length=8.5",): "flag --max_length=8.5",
    ("--pooling=",): "--pooling is blank",
    ("--dtype=float16",): "flag --dtype=float16: value should be one of <float32|bfloat16>",
    ("--dtype=",): "flag --dtype=",
    ("--normalize=maybe",): "flag --normalize=maybe",
    ("--normalize", "False"): "unexpected argument 'False'",
    ("--nonormalize=5",): "--nonormalize=5 does not take an argument (--help",
    ("--on_overflow=drop",): "flag --on_overflow=drop: value should be one of <warn|error|ignore>",
    ("--format=pdf",): "flag --format=pdf",
    ("--format=",): "flag --format=",
    ("--column=text",): "a txt file has lines, not columns",
    ("--id_column=id",): "a txt file has lines, not columns",
    ("--input=in.tsv", "--column=0", "--id_column=1"): "only a .parquet output has room for ids",
    ("--encoding=nope",): "encoding='nope' is not an encoding of text",
    ("--encoding=",): "encoding='' is not an encoding of text",
    ("--shard_rows=-1",): "flag --shard_rows=-1",
    ("--shard_rows=2",): "--shard_rows is for a folder",
    ("--shard=",): "--shard=: must be I/N",
    ("--shard=-1/2",): "--shard=-1/2: must be I/N",
    ("--shard=0/0",): "--shard=0/0: must be I/N",
    ("--shard=0/2",): "--output=out.npy: 2 processes need a folder",
    ("--input=",): "--input is missing",
    ("--input= ",): "--input is missing",
    ("--input",): "Missing value for flag --input",
    ("--input=none.txt",): "--input=none.txt: no such file",
    ("--input=.",): "--input=. is a folder",
    ("--input=/dev/null",): "--input=/dev/null is a pipe or a device",
    ("--input=gs://bucket/in.txt",): "--input=gs://bucket/in.txt is no file of this machine",
    ("--output=",): "--output is missing",
    ("--output= ",): "--output is missing",
    ("--output=out.csv",): "vectors go into .npy or .parquet",
    ("--output=file",): "--output=file is a file",
    ("--output=file/out.npy",): "is a file; name a folder",
    ("--output=folder.npy",): "--output=folder.npy is a folder",
    ("--output=gs://bucket/out",): "--output=gs://bucket/out is no file of this machine",
    ("--output=s3://bucket/out.npy",): "--output=s3://bucket/out.npy is no file of this machine",
    ("--encoder=",): "--encoder is blank",
    ("--workdir=run",): "give either --workdir=DIR",
    ("--step=3",): "--step goes with --workdir",
    ("--flow=",): "--flow is blank",
    ("--revision= ",): "--revision is blank",
    ("--batchsize=3",): "Did you mean: batch_size",
    ("more",): "unexpected argument 'more'",
}
# These are found once the encoder's folder is read, which loads JAX: a second each.
EMBED_SLOW = {
    ("--max_length=2",): "max_length=2 must be an integer >= 3",
    ("--max_length=1000000000",): "max_length=1000000000 is beyond the encoder's position table",
    ("--pooling=avearge",): "unknown pooling 'avearge'",
}
EXPORT = {
    ("--platforms=",): "--platforms=: must be some of cpu, cuda",
    ("--platforms=gpu",): "--platforms=gpu: must be some of cpu, cuda",
    ("--platforms=cpu,cpu",): "--platforms=cpu,cpu: one is named twice",
    ("--platforms=cpu,",): "--platforms=cpu,: must be some of",
    ("--normalize=maybe",): "flag --normalize=maybe",
    ("--normalize", "False"): "unexpected argument 'False'",
    ("--dtype=int8",): "flag --dtype=int8",
    ("--batch_size=3",): "Unknown command line flag 'batch_size'",
    ("--output=",): "--output=FOLDER is missing",
    ("--output=file",): "--output=file is no folder",
    ("--output=.",): "--output=. is not empty",
    ("--output=gs://bucket/out",): "--output=gs://bucket/out is no folder of this machine",
    ("--workdir=run",): "give either --workdir=DIR",
    ("--step=1",): "--step goes with --workdir",
    ("--revision=",): "--revision is blank",
    ("--flow=no/such/place",): "folder not found: no/such/place",
    ("--encoder=./none",): "folder not found: ./none",
}


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    folder = tmp_path_factory.mktemp("flags")
    write_bert(folder / "bert")
    (folder / "in.txt").write_text("a\nthe dog\n")
    (folder / "in.tsv").write_text("a\tb\n")
    (folder / "file").write_text("kept")
    (folder / "folder.npy").mkdir()
    return folder


def files_in(folder):
    return sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*"))


@pytest.mark.parametrize(
    ("module", "output", "table"),
    [
        ("bertflow_jax.embed_flags", "out.npy", EMBED | EMBED_SLOW),
        ("bertflow_jax.export.__main__", "out", EXPORT),
    ],
)
def test_flags_that_cannot_be(place, module, output, table):
    """A traceback, an exit code that a script takes for success, a local folder named "gs:"."""
    before = files_in(place)
    given = ["--encoder=bert", f"--output={output}"]
    if module.endswith("embed_flags"):
        given.append("--input=in.txt")
    results = run_commands(module, [[*given, *flags] for flags in table], place)
    wrong = [
        f"{flags}: exit {code}: {text}"
        for (flags, words), (code, text) in zip(table.items(), results, strict=True)
        if code != 2 or words not in text or "Traceback" in text or "get_config" in text
    ]
    assert not wrong, "\n".join(wrong)
    assert files_in(place) == before


def test_an_enormous_batch_is_as_good_as_any(place):
    """An overflow, or gigabytes for two texts."""
    arguments = [
        "--encoder=bert",
        "--input=in.txt",
        "--output=big.npy",
        "--batch_size=1" + 30 * "0",
    ]
    ((code, text),) = run_commands("bertflow_jax.embed_flags", [arguments], place)
    assert code == 0, text
    expected = SentenceEncoder.from_pretrained(place / "bert").encode(["a", "the dog"])
    np.testing.assert_allclose(np.load(place / "big.npy"), expected, atol=1e-5)


@pytest.mark.parametrize("output", ["gs://bucket/out.npy", "https://host/out"])
def test_an_address_is_no_output_of_mapped_vectors(place, output):
    """A local folder named "gs:" with the vectors in it, and exit code 0."""
    np.save(place / "u.npy", np.eye(4, dtype=np.float32))
    before = files_in(place)
    options = ApplyOptions(str(place / "model"), str(place / "u.npy"), output)
    with pytest.raises(WorkdirError, match=f"--output={output} is no file of this machine"):
        run_apply(options)
    assert files_in(place) == before
