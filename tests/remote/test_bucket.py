"""Objects and addresses: what the client is asked for, and what its errors become."""

import subprocess
import sys
from pathlib import Path

import pytest
from fake_gcs import DROP

from bertflow_jax.errors import ConfigError, DataNotFoundError, WorkdirError
from bertflow_jax.output_places import output_folder
from bertflow_jax.remote import bucket
from bertflow_jax.remote.address import Address, remote_address
from bertflow_jax.remote.bucket import BucketFolder
from bertflow_jax.remote.output import Output
from bertflow_jax.workdir import prepare_workdir

RUN = Address("bucket", "runs/mine")


def test_addresses():
    """A Path makes one slash of two; a local folder with a colon is no address."""
    assert remote_address("gs://bucket/runs/mine/", "--workdir") == RUN
    assert remote_address(Path("gs://bucket/runs/mine"), "--workdir") == RUN
    assert str(RUN / "eval") == "gs://bucket/runs/mine/eval"
    for local in ("runs/mine", "gs:/bucket/x", "./gs://x", "C:\\runs", Path("runs/a:b")):
        assert remote_address(local, "--workdir") is None


@pytest.mark.parametrize(
    ("place", "words"),
    [
        ("gs://bucket", "whole bucket.*gs://bucket/runs/mine"),
        ("gs://bucket/", "whole bucket"),
        ("gs://", "no name of a bucket"),
        ("gs://Bucket/run", "'Bucket' is no name of a bucket"),
        ("gs://bucket/a//b", "empty part"),
        ("gs://bucket/a/../b", "empty part"),
        ("s3://bucket/run", "s3://bucket/run is no folder of this machine.*gs://BUCKET/FOLDER"),
        ("http://x/y", "no folder of this machine"),
    ],
)
def test_impossible_addresses(place, words, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(WorkdirError, match=f"^--workdir={place}.*{words}|^--workdir.*{words}"):
        prepare_workdir(place, resume=False, overwrite=False)
    assert list(tmp_path.iterdir()) == []  # it made ./gs:/bucket/run


def test_places_without_buckets_refuse_addresses(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(WorkdirError, match="--data_dir=gs://bucket/x is no folder of this machine"):
        output_folder("gs://bucket/x", "--data_dir")
    assert list(tmp_path.iterdir()) == []


def test_objects(gcs, tmp_path):
    """Contents with any line ends, more objects than a page, a neighbour of the same beginning."""
    folder = BucketFolder(RUN)
    content = bytes(range(256)) + b"\r\n--\n\n\r"
    (tmp_path / "file").write_bytes(content)
    folder.put("a/b c#?.bin", tmp_path / "file")
    for i in range(20):
        folder.put(f"many/{i:02d}", b"x" * i)
    gcs.objects["runs/mine2/other"] = b"another run"
    assert gcs.objects["runs/mine/a/b c#?.bin"] == content
    assert folder.names() == {"a/b c#?.bin": len(content)} | {f"many/{i:02d}": i for i in range(20)}
    assert folder.get("a/b c#?.bin") == content
    assert folder.get_file("a/b c#?.bin", tmp_path / "down" / "file")
    assert (tmp_path / "down" / "file").read_bytes() == content
    assert folder.get("absent") is None
    assert not folder.get_file("absent", tmp_path / "absent")
    assert not (tmp_path / "absent").exists()
    folder.move("many/03", "moved/03")
    folder.delete("many/04")
    folder.delete("many/04")
    assert folder.get("moved/03") == b"xxx"
    assert not {"many/03", "many/04"} & set(folder.names())
    first = folder.put("version", b"1")
    assert folder.generation("version") == first
    assert folder.put("version", b"1") != first
    assert folder.generation("absent") is None


def test_a_large_file_goes_up_in_a_session(gcs, tmp_path):
    """Above 8 MiB the client uses another protocol."""
    content = b"0123456789abcdef" * 600_000
    (tmp_path / "large").write_bytes(content)
    BucketFolder(RUN).put("large", tmp_path / "large")
    assert gcs.objects["runs/mine/large"] == content


@pytest.mark.parametrize(
    ("fault", "words"),
    [
        (403, "gs://bucket/runs/mine/x cannot be written: .*Storage Object Admin"),
        (400, "gs://bucket/runs/mine/x cannot be written: .*fault 400"),
        (503, "gs://bucket/runs/mine/x cannot be written: .*fault 503"),
        (DROP, "gs://bucket/runs/mine/x cannot be written: "),
    ],
)
def test_refusals_and_breakdowns_name_the_object(gcs, fault, words):
    gcs.faults = lambda method, name: fault
    with pytest.raises(WorkdirError, match=words) as caught:
        BucketFolder(RUN).put("x", b"1")
    assert "\n" not in str(caught.value)


def test_a_short_breakdown_is_no_error(gcs, monkeypatch):
    monkeypatch.setattr(bucket, "PATIENCE", 30.0)
    left = [503]
    gcs.faults = lambda method, name: left.pop() if left else None
    BucketFolder(RUN).put("x", b"1")
    assert gcs.objects["runs/mine/x"] == b"1"


def test_no_bucket(gcs):
    with pytest.raises(DataNotFoundError, match="there is no bucket 'nobucket'"):
        prepare_workdir("gs://nobucket/run", resume=False, overwrite=False)


def test_no_credentials(monkeypatch, tmp_path):
    """Without a stand-in the client looks for credentials, and says where in several lines."""
    for name in ("STORAGE_EMULATOR_HOST", "GOOGLE_APPLICATION_CREDENTIALS"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("CLOUDSDK_CONFIG", str(tmp_path))
    monkeypatch.setenv("NO_GCE_CHECK", "true")
    with pytest.raises(WorkdirError, match="no Google credentials: run `gcloud auth"):
        BucketFolder(RUN)


def test_the_extra_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "google.cloud.storage", None)
    monkeypatch.delattr("google.cloud.storage")
    with pytest.raises(
        ConfigError, match=r"pip install 'google-cloud-storage>=3.17,<4' .the extra gcs"
    ):
        prepare_workdir("gs://bucket/run", resume=False, overwrite=False)


def test_the_extra_is_optional():
    """Without it everything else has to load; other libraries may load it for themselves."""
    code = (
        "import sys; sys.modules['google.cloud.storage'] = None; "
        "import bertflow_jax, bertflow_jax.training.run, bertflow_jax.training.supervised_run, "
        "bertflow_jax.restore, bertflow_jax.evaluation.run; "
        "print([m for m in sys.modules if m.startswith('bertflow_jax.remote.')])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    loaded = ["bertflow_jax.remote.address", "bertflow_jax.remote.output"]
    assert sorted(eval(done.stdout)) == loaded


def test_a_report_of_an_earlier_evaluation_goes(gcs):
    """Bug: it stays in the bucket beside the new results; or one that is somebody else's goes."""
    with Output("gs://bucket/eval") as output:
        (output.folder / "report.html").write_text("earlier")
        output.publish()
        output.drop("report.html", beside="results.json")
        assert "eval/report.html" in gcs.objects
        (output.folder / "results.json").write_text("{}")
    with Output("gs://bucket/eval") as output:
        output.drop("report.html", beside="results.json")
        (output.folder / "results.json").write_text('{"new": 1}')
    assert {name: gcs.objects[name] for name in gcs.names("eval/")} == {
        "eval/results.json": b'{"new": 1}'
    }
