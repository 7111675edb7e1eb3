"""SentEval's two functions under an engine that does what SentEval's does. Each test names the bug."""

import subprocess
import sys
from types import SimpleNamespace

import numpy as np
import pytest
from scipy.stats import pearsonr, spearmanr

from bertflow_jax import SentenceEncoder, Whitening
from bertflow_jax.data.sts import ScoredPairs, StsTask, load_task
from bertflow_jax.errors import InputError
from bertflow_jax.evaluation.tasks import evaluate_task
from bertflow_jax.integrations.senteval import cosine, make_batcher

STS16 = ("answer-answer", "headlines", "plagiarism", "postediting", "question-question")
PAIRS = 40  # of each subset


@pytest.fixture(scope="module")
def encoder():
    return SentenceEncoder.from_pretrained("mini_bert")


@pytest.fixture
def counted(encoder, monkeypatch):
    """The texts of every call of `encode`."""
    calls = []
    encode = encoder.encode

    def count(texts, *args, **kwargs):
        calls.append(list(texts))
        return encode(texts, *args, **kwargs)

    monkeypatch.setattr(encoder, "encode", count)
    return calls


class StubEngine:
    """SentEval's STS evaluation: read, split at blanks, sort by length, small batches, aggregate."""

    def __init__(self, batcher, prepare, similarity=None, as_bytes=False):
        self.params = SimpleNamespace(batch_size=16, classifier={"nhid": 0})
        self.similarity = similarity or self.cosine
        self.batcher, self.prepare, self.as_bytes = batcher, prepare, as_bytes

    @staticmethod
    def cosine(u, v):
        return np.dot(u, v) / (np.linalg.norm(u) * np.linalg.norm(v))

    def words(self, text):
        return (text.encode() if self.as_bytes else text).split()

    def read(self, folder, subset, count):
        pairs = (folder / f"STS.input.{subset}.txt").read_text("utf-8").split("\n")
        golds = (folder / f"STS.gs.{subset}.txt").read_text("utf-8").split("\n")
        rows = [
            (*map(self.words, pair.split("\t")[:2]), float(gold))
            for pair, gold in zip(pairs, golds, strict=True)
            if gold
        ][:count]
        return sorted(rows, key=lambda row: (len(row[0]), len(row[1]), row[2]))

    def eval(self, folder, subsets, count=None):
        data = {subset: self.read(folder, subset, count) for subset in subsets}
        rows = [row for part in data.values() for row in part]
        assert (
            self.prepare(self.params, [row[0] for row in rows] + [row[1] for row in rows]) is None
        )
        results = {subset: self.score(part) for subset, part in data.items()}
        scores = {name: [r[name] for r in results.values()] for name in ("pearson", "spearman")}
        weights = [len(part) for part in data.values()]
        results["all"] = {
            name: {"mean": np.mean(parts), "wmean": np.average(parts, weights=weights)}
            for name, parts in scores.items()
        }
        return results

    def score(self, rows):
        cosines = []
        for start in range(0, len(rows), self.params.batch_size):
            batch = rows[start : start + self.params.batch_size]
            first = self.batcher(self.params, [row[0] for row in batch])
            second = self.batcher(self.params, [row[1] for row in batch])
            for u, v in zip(first, second, strict=True):
                cosines.append(self.similarity(u, v))
        gold = [row[2] for row in rows]
        return {"pearson": pearsonr(cosines, gold)[0], "spearman": spearmanr(cosines, gold)[0]}


def first_pairs(task, count):
    return StsTask(
        task.name,
        {
            name: ScoredPairs(
                name, pairs.sentences1[:count], pairs.sentences2[:count], pairs.scores[:count]
            )
            for name, pairs in task.subsets.items()
        },
    )


@pytest.mark.parametrize(
    ("white", "similarity", "close"), [(False, None, 0.01), (True, cosine, 1e-3)]
)
def test_the_engine_scores_as_we_do(encoder, shared, white, similarity, close):
    """Vectors of another order than the batch, or of the encoder without its post-processor."""
    task = first_pairs(load_task("sts16", shared / "sts"), PAIRS)
    if white:
        u = encoder.encode(task.sentences)
        encoder = encoder.with_postprocess(Whitening(k=32).fit(u))
    prepare, batcher = make_batcher(encoder)
    folder = shared / "sts" / "STS" / "STS16-en-test"
    theirs = StubEngine(batcher, prepare, similarity, white).eval(folder, STS16, PAIRS)
    ours = evaluate_task(task, encoder.encode)
    for name in ("pearson", "spearman"):
        for kind in ("mean", "wmean"):
            assert 100 * theirs["all"][name][kind] == pytest.approx(ours[kind][name], abs=close)
        for subset in STS16:
            expected = ours["subsets"][subset][name]
            assert 100 * theirs[subset][name] == pytest.approx(expected, abs=close), subset


def test_a_task_is_embedded_once(encoder, counted):
    """A call of the encoder for every batch: SentEval asks for 32 sentences at a time."""
    prepare, batcher = make_batcher(encoder)
    samples = [["a", "dog"], ["it", "rains"], ["a", "dog"], ["two", "birds"]]
    counted.clear()
    prepare(None, samples)
    for sample in samples:
        batcher(None, [sample])
    assert counted == [["a dog", "it rains", "two birds"]]


def test_rows_follow_the_batch(encoder):
    """Vectors in the order of the table, where a batch repeats and permutes sentences."""
    prepare, batcher = make_batcher(encoder)
    prepare(None, [["a", "dog"], ["it", "rains"]])
    vectors = batcher(None, [["it", "rains"], ["two", "birds"], ["a", "dog"], ["it", "rains"]])
    expected = encoder.encode(["it rains", "two birds", "a dog", "it rains"])
    np.testing.assert_allclose(vectors, expected, atol=1e-5)
    assert vectors.dtype == np.float32
    assert batcher(None, []).shape == (0, encoder.dimension)


def test_a_batch_may_be_changed(encoder):
    """A view into the table: what an engine does to its batch would change the next one."""
    prepare, batcher = make_batcher(encoder)
    prepare(None, [["a", "dog"]])
    first = batcher(None, [["a", "dog"]])
    kept = first.copy()
    first *= 0
    np.testing.assert_array_equal(batcher(None, [["a", "dog"]]), kept)


@pytest.mark.parametrize(
    ("words", "text"),
    [
        ([], "."),
        ([""], "."),
        (np.array([], dtype=object), "."),
        ([b"caf\xc3\xa9", b"au", b"lait"], "café au lait"),
        (np.array(["a", "dog"]), "a dog"),
        (("a", "dog"), "a dog"),
    ],
)
def test_sentences_as_senteval_hands_them_over(encoder, counted, words, text):
    """bytes written out as b'...', or an error for a sentence without words."""
    _, batcher = make_batcher(encoder)
    counted.clear()
    vectors = batcher(None, [words])
    assert counted == [[text]]
    assert np.abs(vectors).max() > 0


@pytest.mark.parametrize(
    ("sample", "message"),
    [
        ("a dog", r"sentence 1 is str, not a list of words"),
        (None, r"sentence 1 is NoneType"),
        (["a", 3], r"sentence 1 holds int"),
        ([b"caf\xe9"], r"sentence 1: the word b'caf\\xe9' is not UTF-8"),
    ],
)
def test_what_is_no_list_of_words_is_named(encoder, sample, message):
    """A str joined letter by letter: "a dog" as "a   d o g", without a word."""
    prepare, batcher = make_batcher(encoder)
    for function in (prepare, batcher):
        with pytest.raises(InputError, match=message):
            function(None, [["fine"], sample])


def test_identical_sentences_tie():
    """A cosine in float32: 1 and 1 - 1e-7, which Spearman ranks one above the other."""
    vectors = np.random.default_rng(0).normal(size=(50, 256)).astype(np.float32)
    assert {cosine(u, u) for u in vectors} == {1.0}
    assert cosine(np.array([1.0, 0.0]), np.array([1.0, 1.0])) == pytest.approx(2**-0.5)
    assert cosine(np.zeros(2), np.ones(2)) == 0.0


def test_what_is_kept_is_bounded(encoder, monkeypatch, caplog):
    """A cache without a limit: all of SNLI, and every task before it."""
    calls = []

    def embed(texts, *args):
        calls.append(list(texts))
        return np.zeros((len(texts), encoder.dimension), np.float32)

    monkeypatch.setattr(encoder, "encode", embed)
    prepare, batcher = make_batcher(encoder, cache_mib=1)
    rows = 1024 * 1024 // (4 * encoder.dimension)  # of 1 MiB
    words = [[f"{number}"] for number in range(rows + 3)]
    calls.clear()
    prepare(None, words)
    assert [len(texts) for texts in calls] == [rows]
    assert f"3 of {rows + 3} sentences" in caplog.text
    calls.clear()
    batcher(None, [words[0], words[rows], words[rows - 1]])
    prepare(None, [["next"]])
    batcher(None, [words[0]])
    assert calls == [[f"{rows}"], ["next"], ["0"]]


def test_no_cache(encoder, counted):
    """cache_mib=0 taken for the default."""
    prepare, batcher = make_batcher(encoder, cache_mib=0)
    prepare(None, [["a", "dog"]])
    counted.clear()
    batcher(None, [["a", "dog"]])
    assert counted == [["a dog"]]


def test_normalize(encoder):
    """An option that is taken and not heeded."""
    prepare, batcher = make_batcher(encoder, normalize=True)
    prepare(None, [["a", "dog"]])
    np.testing.assert_allclose(
        np.linalg.norm(batcher(None, [["a", "dog"], ["it", "rains"]]), axis=1), 1, rtol=1e-5
    )


@pytest.mark.parametrize(
    ("options", "message"),
    [({"cache_mib": -1}, "cache_mib=-1"), ({"normalize": "yes"}, "normalize='yes'")],
)
def test_impossible_options(encoder, options, message):
    """An error at the first batch, an hour later, or none."""
    with pytest.raises(InputError, match=message):
        make_batcher(encoder, **options)


def test_a_path_is_not_an_encoder():
    """`make_batcher("mini_bert")` that ends in an AttributeError."""
    with pytest.raises(InputError, match="SentenceEncoder is needed, not str"):
        make_batcher("mini_bert")


def test_importing_the_adapter_loads_no_other_framework():
    """An import at the top of a module: torch and mteb take seconds and may be absent."""
    code = (
        "import sys, bertflow_jax.integrations.senteval; "
        "print([m for m in ('torch', 'mteb', 'senteval', 'sklearn') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
