"""BERT in Flax linen, its weights and its poolings."""

from bertflow_jax.encoder.bert import Bert, BertOutput, Pooler, hidden_state, init_params
from bertflow_jax.encoder.bert_config import BertConfig, read_config
from bertflow_jax.encoder.embedding import make_embed_fn
from bertflow_jax.encoder.folder import EncoderFolder, read_folder
from bertflow_jax.encoder.hf_layout import params_digest, save_params
from bertflow_jax.encoder.hf_weights import WeightAudit, load_params
from bertflow_jax.encoder.hub import resolve_folder
from bertflow_jax.encoder.pooling import PoolingSpec, parse_pooling
from bertflow_jax.encoder.pretrained import Encoder, load_encoder, save_encoder

__all__ = [
    "Bert",
    "BertConfig",
    "BertOutput",
    "Encoder",
    "EncoderFolder",
    "Pooler",
    "PoolingSpec",
    "WeightAudit",
    "hidden_state",
    "init_params",
    "load_encoder",
    "load_params",
    "make_embed_fn",
    "params_digest",
    "parse_pooling",
    "read_config",
    "read_folder",
    "resolve_folder",
    "save_encoder",
    "save_params",
]
