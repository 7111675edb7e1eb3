"""A Chinese and a German BERT from text file to vectors, offline, beside transformers."""

import json
import re
from pathlib import Path

import jax
import numpy as np
import pytest
from scipy.stats import spearmanr

from bertflow_jax import SentenceEncoder
from bertflow_jax.encoder import BertConfig, init_params, save_params
from bertflow_jax.restore import load_run

pytestmark = pytest.mark.slow

ROOT = Path(__file__).resolve().parents[2]
SPECIAL = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]

CHINESE = [
    subject + end
    for subject in ("我", "他", "她", "我们", "老师", "医生")
    for end in (
        "喜欢喝绿茶。",
        "在图书馆看书。",
        "去公园跑步！",
        "今天很好，是吗？",
        "有３只猫和2条狗。",
    )
]
# Every character, and what WordPiece cuts words into.
CHINESE_VOCABULARY = [*SPECIAL, *sorted(set("".join(CHINESE)) - {" "}), "go", "##od"]

GERMAN = [
    f"{subject} {end}"
    for subject in ("Der Bär", "Die Königin", "Ein Mann", "Das Mädchen", "Frau Groß")
    for end in (
        "hört Musik.",
        "läuft über die Straße.",
        "ißt süße Äpfel.",
        "mag grüne Straßenbahnen!",
    )
]
_WORDS = sorted(set(re.findall(r"\w+|[^\w\s]", " ".join(GERMAN))))
CASED_VOCABULARY = [*SPECIAL, *_WORDS, "Straßen", "##bahn", "##en", "##n"]
# As BERT lower-cases: accents go, ß stays.
_PLAIN = str.maketrans("äöü", "aou")
UNCASED_VOCABULARY = list(dict.fromkeys(w.lower().translate(_PLAIN) for w in CASED_VOCABULARY[5:]))
UNCASED_VOCABULARY = [*SPECIAL, *UNCASED_VOCABULARY]

LANGUAGES = {
    "chinese": (CHINESE, CHINESE_VOCABULARY, False),
    "german_cased": (GERMAN, CASED_VOCABULARY, False),
    "german_uncased": (GERMAN, UNCASED_VOCABULARY, True),
}


def write_bert(folder: Path, vocabulary: list[str], lower: bool) -> Path:
    """Write a random BERT of two layers in Hugging Face layout."""
    config = BertConfig(
        vocab_size=len(vocabulary),
        hidden_size=32,
        num_hidden_layers=2,
        num_attention_heads=2,
        intermediate_size=48,
        max_position_embeddings=40,
    )
    folder.mkdir(parents=True)
    (folder / "config.json").write_text(json.dumps(config.to_hf_dict()))
    (folder / "vocab.txt").write_text("\n".join(vocabulary) + "\n", "utf-8")
    says = {"tokenizer_class": "BertTokenizer", "do_lower_case": lower}
    (folder / "tokenizer_config.json").write_text(json.dumps(says))
    rng = np.random.default_rng(0)
    params = jax.tree.map(
        lambda x: np.asarray(x + rng.normal(scale=0.2, size=x.shape), np.float32),
        init_params(config, jax.random.key(0)),
    )
    save_params(params, folder / "model.safetensors")
    return folder


@pytest.fixture(scope="module")
def folders(tmp_path_factory) -> dict[str, Path]:
    root = tmp_path_factory.mktemp("languages")
    return {n: write_bert(root / n, words, low) for n, (_, words, low) in LANGUAGES.items()}


def tokens_of(folder: Path, text: str) -> list[str]:
    vocabulary = (folder / "vocab.txt").read_text("utf-8").splitlines()
    ids, mask = SentenceEncoder.from_pretrained(folder).tokenize([text])
    return [vocabulary[i] for i, m in zip(ids[0], mask[0], strict=True) if m][1:-1]


@pytest.mark.parametrize(
    ("language", "text", "tokens"),
    [
        # Characters are tokens without spaces between them; full-width punctuation is split off.
        ("chinese", "她喜欢看书，我去公园。", [*"她喜欢看书，我去公园。"]),
        # Latin words beside them go through WordPiece; full-width digits stay what they are.
        ("chinese", "他good吗？３只猫", ["他", "go", "##od", "吗", "？", "３", "只", "猫"]),
        ("german_cased", "Die Königin ißt Äpfel.", ["Die", "Königin", "ißt", "Äpfel", "."]),
        ("german_cased", "die königin", ["die", "[UNK]"]),
        ("german_cased", "Straßenbahnen", ["Straßenbahnen"]),
        ("german_cased", "Straßenbahn", ["Straßen", "##bahn"]),
        ("german_uncased", "DIE Königin ißt ÄPFEL.", ["die", "konigin", "ißt", "apfel", "."]),
        ("german_uncased", "Über die Straße", ["uber", "die", "straße"]),
        # A combining diaeresis is an accent too.
        ("german_uncased", "ho\u0308rt", ["hort"]),
    ],
)
def test_tokens(folders, language, text, tokens):
    """Chinese text taken for one unknown word, umlauts lost where they count or kept where not."""
    assert tokens_of(folders[language], text) == tokens


@pytest.mark.parametrize("language", LANGUAGES)
def test_tokens_and_vectors_are_those_of_transformers(folders, language):
    """Ids of another tokenizer, or vectors of other ids than the tokenizer gave."""
    torch = pytest.importorskip("torch")
    from transformers import AutoTokenizer, BertModel

    folder, texts = folders[language], LANGUAGES[language][0]
    texts = [*texts, "ＡＢＣ「你好」Zürich — naïve", "她good書書", "", "Äpfel,Äpfel"]
    encoder = SentenceEncoder.from_pretrained(folder)
    theirs = AutoTokenizer.from_pretrained(folder)(texts, padding=True, return_tensors="pt")
    ids, mask = encoder.tokenize(texts)
    np.testing.assert_array_equal(ids, theirs["input_ids"].numpy())
    np.testing.assert_array_equal(mask, theirs["attention_mask"].numpy())
    with torch.no_grad():
        states = BertModel.from_pretrained(folder).eval()(**theirs).last_hidden_state
    weights = theirs["attention_mask"][:, :, None]
    mean = (states * weights).sum(1) / weights.sum(1)
    np.testing.assert_allclose(encoder.encode(texts), mean.numpy(), atol=1e-5)


@pytest.mark.parametrize("language", ["chinese", "german_cased"])
def test_from_text_to_vectors(folders, tmp_path, bash, language):
    """A step on the way (text file, cache, checkpoint, scores, output) that assumes ASCII."""
    texts = LANGUAGES[language][0]
    (tmp_path / "sätze.txt").write_text("\n".join(texts) + "\n", "utf-8")
    pairs = [(5, texts[0], texts[0]), (3.5, texts[0], texts[1]), (2, texts[2], texts[9])]
    pairs += [(0.5, texts[3], texts[14]), (1, texts[7], texts[16])]
    rows = [f"own\tfile\t2020\t{i}\t{gold}\t{a}\t{b}" for i, (gold, a, b) in enumerate(pairs)]
    (tmp_path / "data" / "STSBenchmark").mkdir(parents=True)
    (tmp_path / "data" / "STSBenchmark" / "sts-test.csv").write_text("\n".join(rows), "utf-8")

    commands = [
        f"{ROOT}/train.py --config={ROOT}/configs/text.py --workdir=läufe --config.data.path=sätze.txt"
        f" --config.encoder.path={folders[language]} --config.train.steps=50"
        " --config.train.batch_size=16",
        f"{ROOT}/evaluate.py --workdir=läufe --data_dir=data --tasks=stsb --noreport",
        "-m bertflow_jax.embed --workdir=läufe --input=sätze.txt --output=v.npy",
    ]
    for command in commands:
        done = bash(f"python {command}", tmp_path)
        assert done.returncode == 0, done.stdout

    # Computed apart: the raw encoder, the restored flow, NumPy's cosine and SciPy's rank correlation.
    flow = load_run(tmp_path / "läufe").flow
    raw = SentenceEncoder.from_pretrained(folders[language], pooling="first_last")
    vectors = np.load(tmp_path / "v.npy")
    np.testing.assert_allclose(vectors, flow.transform(raw.encode(texts)), atol=1e-4)
    results = json.loads((tmp_path / "läufe" / "eval" / "results.json").read_text("utf-8"))
    gold = [gold for gold, _, _ in pairs]
    for name, rows_of in (("raw", raw.encode), ("flow", lambda t: flow.transform(raw.encode(t)))):
        a, b = (rows_of([pair[side] for pair in pairs]) for side in (1, 2))
        cosines = (a * b).sum(1) / np.linalg.norm(a, axis=1) / np.linalg.norm(b, axis=1)
        expected = 100 * spearmanr(cosines, gold).statistic
        assert results["rows"][name]["stsb"]["all"]["spearman"] == pytest.approx(expected, abs=1e-3)
