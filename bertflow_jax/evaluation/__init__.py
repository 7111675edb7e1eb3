"""STS tasks, metrics, tables and the report.

To score a method of your own, a function from N texts to float[N, D]:
`evaluate([load_task("stsb", DIR)], {"mine": embed})`.
"""

from bertflow_jax.data.glue import BinaryTask as BinaryTask
from bertflow_jax.data.glue import load_glue_task as load_glue_task
from bertflow_jax.data.sts import ScoredPairs as ScoredPairs
from bertflow_jax.data.sts import StsTask as StsTask
from bertflow_jax.data.sts import load_task as load_task
from bertflow_jax.evaluation.tasks import SentenceTable as SentenceTable
from bertflow_jax.evaluation.tasks import evaluate as evaluate
from bertflow_jax.evaluation.tasks import evaluate_task as evaluate_task
