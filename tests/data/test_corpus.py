"""Checks of the bundled sentence-pair corpus and of the counts in its data card."""

import importlib.resources
import re
import unicodedata
from collections import Counter

import pytest
from scipy.stats import spearmanr

HEADER = ["topic", "score", "sentence1", "sentence2"]
BANDS = [(0.0, 0.5), (0.5, 1.5), (1.5, 2.5), (2.5, 3.5), (3.5, 4.5), (4.5, 5.0)]


def corpus_file(name):
    return importlib.resources.files("bertflow_jax.data") / "corpus" / name


def band_of(score):
    """Index into BANDS; every band holds its lower edge, the last one also its upper edge."""
    return sum(score >= low for low, _ in BANDS) - 1


def word_set(sentence):
    return set(re.findall(r"\w+", sentence.lower()))


def jaccard(first, second):
    a, b = word_set(first), word_set(second)
    return len(a & b) / len(a | b)


@pytest.fixture(scope="module")
def text():
    return corpus_file("everyday.tsv").read_bytes().decode("utf-8")


@pytest.fixture(scope="module")
def lines(text):
    # Not splitlines(), which would also break at exotic separators inside a field.
    return text.removesuffix("\n").split("\n")


@pytest.fixture(scope="module")
def rows(lines):
    return [line.split("\t") for line in lines[1:]]


@pytest.fixture(scope="module")
def scores(rows):
    return [float(row[1]) for row in rows]


@pytest.fixture(scope="module")
def rank_correlation(rows, scores):
    return spearmanr([jaccard(row[2], row[3]) for row in rows], scores)[0]


@pytest.fixture(scope="module")
def card():
    return corpus_file("README.md").read_text(encoding="utf-8")


def table_after(card, heading):
    """The first table below a heading, as a list of rows of cells, without its head."""
    assert heading in card
    table = []
    for line in card.split(heading, 1)[1].splitlines():
        if line.startswith("|"):
            table.append([cell.strip() for cell in line.strip("|").split("|")])
        elif table:
            break
    return table[2:]


def test_header_and_column_count(lines):
    assert lines[0].split("\t") == HEADER
    wrong = [n for n, line in enumerate(lines, 1) if line.count("\t") != len(HEADER) - 1]
    assert wrong == []


def test_file_ends_with_one_newline_and_has_no_byte_order_mark(text):
    assert text.endswith("\n")
    assert not text.endswith("\n\n")
    assert not text.startswith("\ufeff")


def test_no_control_or_invisible_characters(lines):
    bad = [
        (n, hex(ord(char)))
        for n, line in enumerate(lines, 1)
        for char in line.replace("\t", "")
        if unicodedata.category(char)[0] in "CZ" and char != " "
    ]
    assert bad == []


def test_text_is_composed_unicode(text):
    assert unicodedata.is_normalized("NFC", text)


def test_no_double_quotes(text):
    # Readers that treat the double quote as a delimiter must see the same fields.
    assert '"' not in text


def test_fields_are_neither_blank_nor_padded(rows):
    bad = [
        row for row in rows for field in row if not field or field != field.strip() or "  " in field
    ]
    assert bad == []


def test_scores_have_one_decimal_and_lie_between_0_and_5(rows):
    bad = [row for row in rows if not re.fullmatch(r"[0-4]\.[0-9]|5\.0", row[1])]
    assert bad == []


def test_size(rows):
    assert len(rows) >= 1200
    per_topic = Counter(row[0] for row in rows)
    assert len(per_topic) >= 12
    assert min(per_topic.values()) >= 70


def test_topics_are_plain_lower_case_names(rows):
    assert all(re.fullmatch(r"[a-z]+(_[a-z]+)*", row[0]) for row in rows)


def test_no_pair_twice_in_either_order(rows):
    pairs = Counter(tuple(sorted(side.casefold() for side in row[2:])) for row in rows)
    assert [pair for pair, count in pairs.items() if count > 1] == []


def test_no_sentence_paired_with_itself(rows):
    assert [row for row in rows if row[2].casefold() == row[3].casefold()] == []


def test_sentences_are_rarely_reused(rows):
    seen = Counter(side.casefold() for row in rows for side in row[2:])
    assert sum(count - 1 for count in seen.values()) <= 10


def test_sentence_lengths(rows):
    lengths = [len(side.split()) for row in rows for side in row[2:]]
    assert min(lengths) >= 4
    assert max(lengths) <= 30


def test_every_band_holds_at_least_a_tenth_of_the_pairs(scores):
    counts = Counter(band_of(score) for score in scores)
    assert set(counts) == set(range(len(BANDS)))
    assert min(counts.values()) >= 0.1 * len(scores)


def test_every_topic_reaches_every_band(rows):
    cells = Counter((row[0], band_of(float(row[1]))) for row in rows)
    missing = [
        (t, b) for t in {row[0] for row in rows} for b in range(len(BANDS)) if not cells[t, b]
    ]
    assert missing == []


def test_word_overlap_follows_the_score_but_does_not_settle_it(rank_correlation):
    # Natural text: closeness in meaning and in wording go together, up to a point.
    assert 0.3 < rank_correlation < 0.65


def test_both_kinds_of_hard_case_exist(rows, scores):
    overlaps = [jaccard(row[2], row[3]) for row in rows]
    pairs = list(zip(scores, overlaps, strict=True))
    same_meaning_other_words = sum(s >= 4.5 and j <= 0.2 for s, j in pairs)
    same_words_other_meaning = sum(s < 2.5 and j >= 0.5 for s, j in pairs)
    assert same_meaning_other_words >= 30
    assert same_words_other_meaning >= 30


def test_every_topic_has_pairs_with_the_same_words_and_another_meaning(rows):
    hard = Counter()
    for topic, score, first, second in rows:
        overlap = jaccard(first, second)
        low = float(score) < 1.5 and overlap > 0.4
        middle = 1.5 <= float(score) < 2.5 and overlap > 0.5
        hard[topic] += low or middle
    assert min(hard.values()) >= 2
    assert max(hard.values()) <= 4


def test_card_counts_per_topic(card, rows):
    table = table_after(card, "### Pairs per topic")
    told = {topic.strip("`"): int(count) for topic, count in table}
    assert told == Counter(row[0] for row in rows)
    assert len(table) == len(told)


def test_card_counts_per_band(card, scores):
    table = table_after(card, "### Pairs per score band")
    counts = Counter(band_of(score) for score in scores)
    expected = []
    for index, (low, high) in enumerate(BANDS):
        close = "]" if index == len(BANDS) - 1 else ")"
        share = 100 * counts[index] / len(scores)
        expected.append([f"[{low:.1f}, {high:.1f}{close}", str(counts[index]), f"{share:.1f} %"])
    assert table == expected


def test_card_totals_and_rank_correlation(card, rows, rank_correlation):
    topics = len({row[0] for row in rows})
    assert f"{len(rows)} sentence pairs over {topics} topics" in card
    (told,) = re.findall(r"Spearman rank correlation[^.]*? is (0\.\d\d)", card)
    assert told == f"{rank_correlation:.2f}"
