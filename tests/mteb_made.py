"""Tasks of mteb that are made of lists, without a download."""

from datasets import Dataset, DatasetDict
from mteb.abstasks.classification import AbsTaskClassification
from mteb.abstasks.retrieval import AbsTaskRetrieval
from mteb.abstasks.retrieval_dataset_loaders import RetrievalSplitData
from mteb.abstasks.sts import AbsTaskSTS
from mteb.abstasks.task_metadata import TaskMetadata


def described(name, kind, main_score):
    return TaskMetadata(
        name=name,
        description="local",
        type=kind,
        dataset={"path": "local", "revision": "1"},
        eval_splits=["test"],
        eval_langs=["eng-Latn"],
        main_score=main_score,
    )


def sts_task(task):
    """One of our own tasks with one subset, for mteb."""
    (pairs,) = task.subsets.values()
    columns = {
        "sentence1": pairs.sentences1,
        "sentence2": pairs.sentences2,
        "score": pairs.scores.tolist(),
    }

    class Local(AbsTaskSTS):
        metadata = described(f"Local{task.name}", "STS", "cosine_spearman")

        def load_data(self, *args, **kwargs):
            self.dataset = DatasetDict(test=Dataset.from_dict(columns))
            self.data_loaded = True

    return Local()


def classification_task(train, test):
    """Texts and labels; every training text is used once."""

    class Local(AbsTaskClassification):
        metadata = described("LocalClassification", "Classification", "accuracy")
        n_experiments = 1
        samples_per_label = len(train["text"])

        def load_data(self, *args, **kwargs):
            self.dataset = DatasetDict(train=Dataset.from_dict(train), test=Dataset.from_dict(test))
            self.data_loaded = True

    return Local()


def retrieval_task(queries, corpus, relevant):
    class Local(AbsTaskRetrieval):
        metadata = described("LocalRetrieval", "Retrieval", "ndcg_at_10")

        def load_data(self, *args, **kwargs):
            data = RetrievalSplitData(
                queries=Dataset.from_list(queries),
                corpus=Dataset.from_list(corpus),
                relevant_docs=relevant,
                top_ranked=None,
            )
            self.dataset = {"default": {"test": data}}
            self.data_loaded = True

    return Local()
