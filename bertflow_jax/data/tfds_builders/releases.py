"""The official releases: who distributes them, what their archives hold, how many pairs they score.

Addresses and folders of the years and of STS Benchmark: the STS wiki of the organisers
(http://ixa2.si.ehu.eus/stswiki); of SICK: SemEval-2014 Task 1
(https://alt.qcri.org/semeval2014/task1/index.php?id=data-and-tools). The authors of SICK also keep
it, as one file, at https://doi.org/10.5281/zenodo.2787612.
"""

import dataclasses

_STS_WIKI = "http://ixa2.si.ehu.eus/stswiki"
_SICK_FILES = "https://alt.qcri.org/semeval2014/task1/data/uploads"
_SOURCES_KEEP_LICENCES = (
    "Distributed by the task organisers for research; the sentences keep the licences of the "
    "sources they were taken from."
)


@dataclasses.dataclass(frozen=True)
class Release:
    """One data set.

    Attributes:
      task: name of the task, of the TFDS builder and of its folder.
      title: one line.
      homepage: of the organisers.
      archives: addresses of the archives.
      folder: of the data inside the unpacked archives.
      sizes: scored pairs, by subset of a year, by split of STS-B and SICK (train, dev, test).
      license: what the distributors say.
      citation: BibTeX.
    """

    task: str
    title: str
    homepage: str
    archives: tuple[str, ...]
    folder: str
    sizes: dict[str, int]
    license: str
    citation: str


def _year(number: str, archive: str, folder: str, sizes: dict[str, int], citation: str) -> Release:
    return Release(
        task=f"sts{number}",
        title=f"Semantic Textual Similarity of SemEval 20{number}, English: test set, gold scores",
        homepage=f"{_STS_WIKI}/index.php/Main_Page",
        archives=(f"{_STS_WIKI}/images/{archive}/STS20{number}-en-test.zip",),
        folder=folder,
        sizes=sizes,
        license=_SOURCES_KEEP_LICENCES,
        citation=citation,
    )


_RELEASES = (
    _year(
        "12",
        "4/40",
        "test-gold",
        {
            "MSRpar": 750,
            "MSRvid": 750,
            "SMTeuroparl": 459,
            "surprise.OnWN": 750,
            "surprise.SMTnews": 399,
        },
        "@inproceedings{agirre-etal-2012-semeval, title={SemEval-2012 Task 6: A Pilot on Semantic "
        "Textual Similarity}, author={Agirre, Eneko and Cer, Daniel and Diab, Mona and "
        "Gonzalez-Agirre, Aitor}, booktitle={*SEM 2012}, year={2012}}",
    ),
    _year(
        "13",
        "2/2f",
        "test-gs",
        {"FNWN": 189, "headlines": 750, "OnWN": 561},
        "@inproceedings{agirre-etal-2013-sem, title={*SEM 2013 shared task: Semantic Textual "
        "Similarity}, author={Agirre, Eneko and Cer, Daniel and Diab, Mona and Gonzalez-Agirre, "
        "Aitor and Guo, Weiwei}, booktitle={*SEM 2013}, year={2013}}",
    ),
    _year(
        "14",
        "8/8c",
        "sts-en-test-gs-2014",
        {
            "deft-forum": 450,
            "deft-news": 300,
            "headlines": 750,
            "images": 750,
            "OnWN": 750,
            "tweet-news": 750,
        },
        "@inproceedings{agirre-etal-2014-semeval, title={SemEval-2014 Task 10: Multilingual "
        "Semantic Textual Similarity}, author={Agirre, Eneko and others}, booktitle={SemEval 2014},"
        " year={2014}}",
    ),
    _year(
        "15",
        "d/da",
        "test_evaluation_task2a",
        {
            "answers-forums": 375,
            "answers-students": 750,
            "belief": 375,
            "headlines": 750,
            "images": 750,
        },
        "@inproceedings{agirre-etal-2015-semeval, title={SemEval-2015 Task 2: Semantic Textual "
        "Similarity, English, Spanish and Pilot on Interpretability}, author={Agirre, Eneko and "
        "others}, booktitle={SemEval 2015}, year={2015}}",
    ),
    _year(
        "16",
        "9/98",
        "sts2016-english-with-gs-v1.0",
        {
            "answer-answer": 254,
            "headlines": 249,
            "plagiarism": 230,
            "postediting": 244,
            "question-question": 209,
        },
        "@inproceedings{agirre-etal-2016-semeval, title={SemEval-2016 Task 1: Semantic Textual "
        "Similarity, Monolingual and Cross-Lingual Evaluation}, author={Agirre, Eneko and others}, "
        "booktitle={SemEval 2016}, year={2016}}",
    ),
    Release(
        task="stsb",
        title="STS Benchmark: a selection of the English STS data of SemEval 2012 to 2017",
        homepage=f"{_STS_WIKI}/index.php/STSbenchmark",
        archives=(f"{_STS_WIKI}/images/4/48/Stsbenchmark.tar.gz",),
        folder="stsbenchmark",
        sizes={"train": 5749, "dev": 1500, "test": 1379},
        license=_SOURCES_KEEP_LICENCES,
        citation="@inproceedings{cer-etal-2017-semeval, title={SemEval-2017 Task 1: Semantic "
        "Textual Similarity Multilingual and Crosslingual Focused Evaluation}, author={Cer, Daniel "
        "and Diab, Mona and Agirre, Eneko and Lopez-Gazpio, I{\\~n}igo and Specia, Lucia}, "
        "booktitle={SemEval 2017}, year={2017}}",
    ),
    Release(
        task="sickr",
        title="SICK (Sentences Involving Compositional Knowledge), relatedness and entailment",
        homepage="https://alt.qcri.org/semeval2014/task1/index.php?id=data-and-tools",
        archives=tuple(
            f"{_SICK_FILES}/sick_{part}.zip" for part in ("train", "trial", "test_annotated")
        ),
        folder="",
        sizes={"train": 4500, "dev": 500, "test": 4927},
        license="Creative Commons Attribution-NonCommercial-ShareAlike 3.0 Unported, as its "
        "authors say.",
        citation="@inproceedings{marelli-etal-2014-sick, title={A SICK cure for the evaluation of "
        "compositional distributional semantic models}, author={Marelli, Marco and Menini, Stefano "
        "and Baroni, Marco and Bentivogli, Luisa and Bernardi, Raffaella and Zamparelli, Roberto}, "
        "booktitle={LREC 2014}, year={2014}}",
    ),
)

RELEASES = {release.task: release for release in _RELEASES}
