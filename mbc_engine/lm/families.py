"""What differs between base LM families: where a layer's key and value projections live, and the scale of logits.

Everything else (layer count, key/value heads, head width) is read from the Hugging Face config. A new family joins by
one entry here.
"""

from dataclasses import dataclass

from transformers import PretrainedConfig

from mbc_engine.errors import ModelError


@dataclass(frozen=True)
class Family:
    """Key/value projections of a family.

    Attributes:
        projections: module names inside a layer's attention.
        fused: one projection makes queries, keys and values, in this order.
        layers: the name of the layer list in the base model.
    """

    projections: tuple[str, ...]
    fused: bool = False
    layers: str = "layers"


SEPARATE = Family(("k_proj", "v_proj"))
FAMILIES = {
    "gpt2": Family(("c_attn",), fused=True, layers="h"),
    "cohere": SEPARATE,
    "cohere2": SEPARATE,
    "gemma": SEPARATE,
    "gemma2": SEPARATE,
    "gemma3_text": SEPARATE,
    "glm4": SEPARATE,
    "granite": SEPARATE,
    "llama": SEPARATE,
    "ministral": SEPARATE,
    "mistral": SEPARATE,
    "olmo2": SEPARATE,
    "olmo3": SEPARATE,
    "phi": SEPARATE,
    "qwen2": SEPARATE,
    "qwen3": SEPARATE,
    "smollm3": SEPARATE,
    "starcoder2": SEPARATE,
}


@dataclass(frozen=True)
class AttentionShape:
    """A base LM's width D, layers L, key/value heads and their width."""

    dim: int
    layers: int
    kv_heads: int
    head_dim: int


def family_of(config: PretrainedConfig) -> Family:
    """The family of a base LM.

    Raises:
        ModelError: it is not a supported one.
    """
    if config.model_type not in FAMILIES:
        text = getattr(config, "text_config", None)
        if text is not None and text.model_type in FAMILIES:
            raise ModelError(
                f"The base LM is of type {config.model_type!r}, which reads more than text.",
                hint=f"Take one that is a language model alone, of type {text.model_type!r}.",
            )
        raise ModelError(
            f"The base LM is of type {config.model_type!r}, whose attention layout is not known.",
            hint=f"Supported types: {', '.join(sorted(FAMILIES))}.",
        )
    return FAMILIES[config.model_type]


def attention_shape(config: PretrainedConfig) -> AttentionShape:
    """Read the attention's shape from a config; `head_dim` need not be width / heads."""
    heads = config.num_attention_heads
    return AttentionShape(
        dim=config.hidden_size,
        layers=config.num_hidden_layers,
        kv_heads=getattr(config, "num_key_value_heads", None) or heads,
        head_dim=getattr(config, "head_dim", None) or config.hidden_size // heads,
    )


def context_of(config: PretrainedConfig) -> int:
    """How many columns, prefix and padding included, every layer of a base LM sees.

    A layer with a sliding window would lose sight of the prefix beyond it, in a padded row first.
    """
    longest: int = config.max_position_embeddings
    return min(longest, getattr(config, "sliding_window", None) or longest)


def logit_scale(config: PretrainedConfig) -> float:
    """What a family multiplies its logits by."""
    scale: float = getattr(config, "logit_scale", None) or 1 / getattr(config, "logits_scaling", 1.0)
    return scale
