"""Building a model from settings, the only place where a config meets the modules, and counting its parameters."""

import tomllib
from collections.abc import Iterator
from dataclasses import astuple, dataclass
from importlib.resources import files
from typing import Final

import torch
from torch import Tensor, nn
from transformers import AutoConfig, AutoModel, AutoModelForCausalLM, PretrainedConfig, PreTrainedModel
from transformers.pytorch_utils import Conv1D

from mbc_engine.config import EncoderSettings, ModelSettings
from mbc_engine.errors import ModelError
from mbc_engine.lm.base import BaseLM, load_base
from mbc_engine.lm.encoders import Encoder, PaddingSide, load_encoder
from mbc_engine.lm.packaged import local_folder
from mbc_engine.lm.pretrained import base_dtype, key_value_modules, load_errors
from mbc_engine.paper.aggregator import Aggregator
from mbc_engine.paper.amortizer import Centring, EncoderAmortizer, T5Amortizer, TextEncoder
from mbc_engine.paper.codebook import Codebook
from mbc_engine.paper.memories import Router
from mbc_engine.paper.model import MBC
from mbc_engine.paper.prefix import PrefixNetwork

# The base LM, and the encoders of documents and of questions.
Pretrained = tuple[BaseLM, Encoder, Encoder]


def load_pretrained(settings: ModelSettings, *, device: str | torch.device = "cpu") -> Pretrained:
    """Load the base LM and the encoders straight to a device, with weights in the formats set."""
    one, other = settings.documents, settings.questions
    base = load_base(settings.base, weights=settings.base_weights, device=device)
    documents = load_encoder(one.name, weights=one.weights, device=device)
    is_shared = shares_encoder(settings)
    questions = documents if is_shared else load_encoder(other.name, weights=other.weights, device=device)
    return base, documents, questions


def shares_encoder(settings: ModelSettings) -> bool:
    """Whether one frozen encoder serves both sides: it is loaded once and its states are cached once."""
    one, other = settings.documents, settings.questions
    return one.frozen and other.frozen and (one.name, one.weights) == (other.name, other.weights)


def build(settings: ModelSettings, pretrained: Pretrained) -> MBC:
    """An untrained model around pretrained parts, with a new KV-LoRA if configured."""
    base, document_encoder, question_encoder = pretrained
    if settings.lora.layers:
        from mbc_engine.paper.kv_lora import add_kv_lora

        add_kv_lora(base.model, **settings.lora.model_dump())
    shape, dim, book = base.shape, base.shape.dim, settings.codebook.model_dump()
    aggregator = settings.aggregator.model_dump()
    aggregator["hidden"] = min(dim, aggregator["hidden"])  # the published one is as wide as the model
    # The same for both sides, so that a question's vectors attend to those of the same position.
    positions = torch.randn(settings.tokens, dim) if settings.centring else None
    # In this order: the parts draw their initial weights from one generator, and a seed must give the same model.
    return MBC(
        settings,
        base=base,
        documents=_text_encoder(document_encoder, settings.documents, settings, dim, positions),
        questions=_text_encoder(question_encoder, settings.questions, settings, dim, positions),
        codebook=Codebook(book.pop("codes"), dim, settings.tokens, **book) if settings.quantised else None,
        aggregator=Aggregator(dim, **aggregator),
        prefix=PrefixNetwork(
            dim,
            shape.layers,
            shape.kv_heads,
            shape.head_dim,
            **settings.prefix.model_dump(),
            as_released=settings.as_released,
        ),
        router=Router(dim) if settings.routing else None,
    )


def _text_encoder(
    encoder: Encoder, side: EncoderSettings, settings: ModelSettings, dim: int, positions: Tensor | None
) -> TextEncoder:
    tokens, as_released = settings.tokens, settings.as_released
    for parameter in encoder.model.parameters():
        parameter.requires_grad_(not side.frozen and parameter.is_floating_point())  # packed weights cannot train
    centring = None if positions is None else Centring(positions)
    if not encoder.model.config.is_encoder_decoder:
        return TextEncoder(EncoderAmortizer(encoder.model, tokens, dim, centring), encoder, side.window)
    amortizer = T5Amortizer(encoder.model, tokens, dim, centring, as_released=as_released)
    pads: PaddingSide = "right" if side is settings.documents else "left"
    return TextEncoder(amortizer, encoder, side.window, pads if as_released else None)


def trainable_parameters(model: nn.Module) -> int:
    """How many parameters require gradients."""
    return sum(parameter.numel() for parameter in model.parameters() if parameter.requires_grad)


# Weights are counted in their formats on a GPU, where large models run.
_DEVICE: Final = torch.device("cuda")
# Bits per packed weight. nf4: 64 weights share an 8-bit scale, 256 scales a 32-bit one; int8: a row shares a scale.
_BITS: Final = {"nf4": 4 + 8 / 64 + 32 / (64 * 256), "int8": 8.0}


@dataclass(frozen=True)
class Parameters:
    """A part's parameters: how many are trainable and frozen, and the bytes of both."""

    trainable: int
    frozen: int
    bytes: int


def parameter_table(settings: ModelSettings) -> dict[str, Parameters]:
    """The parameters of each part of a model, and of "all"; counted on torch's meta device, without weights.

    Parameters that two parts share are counted with the first. Raises ModelError if a pretrained part's sizes are
    unknown or its family is not supported.
    """
    model, bits = skeleton(settings)
    seen: set[int] = set()
    table: dict[str, Parameters] = {}
    for part, parameters in _parts(model).items():
        new = [parameter for parameter in parameters if id(parameter) not in seen]
        seen.update(map(id, new))
        trainable = sum(parameter.numel() for parameter in new if parameter.requires_grad)
        size = sum(value.numel() * bits.get(id(value), 8 * value.element_size()) / 8 for value in new)
        table[part] = Parameters(trainable, sum(value.numel() for value in new) - trainable, round(size))
    table["all"] = Parameters(*map(sum, zip(*(astuple(counted) for counted in table.values()), strict=True)))
    return table


def skeleton(settings: ModelSettings) -> tuple[MBC, dict[int, float]]:
    """A model on the meta device, and the bits of each weight that would be packed (and frozen), by its id."""
    one, other = settings.documents, settings.questions
    with torch.device("meta"):
        base = _empty_base(settings)
        documents = _empty_encoder(one.name)
        questions = documents if shares_encoder(settings) else _empty_encoder(other.name)
        held = ((base, settings.base_weights), (documents.model, one.weights), (questions.model, other.weights))
        bits = {id(weight): _BITS[weights] for model, weights in held if weights in _BITS for weight in packable(model)}
        model = build(settings, (BaseLM(base, None), documents, questions))  # type: ignore[arg-type]
    for parameter in model.parameters():
        if id(parameter) in bits:
            parameter.requires_grad_(False)
    return model, bits


def packable(model: PreTrainedModel) -> Iterator[Tensor]:
    """The weights that bitsandbytes packs: those of linear layers, but the head and what a family keeps in float32."""
    head, unpacked = model.get_output_embeddings(), getattr(model, "_keep_in_fp32_modules", None) or ()
    for name, module in model.named_modules():
        if isinstance(module, nn.Linear | Conv1D) and module is not head and name.rpartition(".")[2] not in unpacked:
            yield module.weight


def config_of(name: str) -> PretrainedConfig:
    """The config of a pretrained part, from its folder, the local hub cache or `architectures.toml`."""
    folder = local_folder(name)
    if folder is not None:
        with load_errors(f"The config of {name}", "Download it again."):
            config: PretrainedConfig = AutoConfig.from_pretrained(
                folder, local_files_only=True, trust_remote_code=False
            )
            return config
    if name in (known := tomllib.loads((files("mbc_engine.paper") / "architectures.toml").read_text())):
        return AutoConfig.for_model(**known[name])
    raise ModelError(
        f"The size of {name} is unknown: it is neither a folder nor in the local hub cache.",
        hint=f"Download its config: hf download {name} config.json",
    )


def _empty_base(settings: ModelSettings) -> PreTrainedModel:
    config = config_of(settings.base)
    key_value_modules(config)
    with load_errors(f"The base LM {settings.base}", "Use another base LM."):
        dtype = base_dtype(settings.base_weights, _DEVICE)
        return AutoModelForCausalLM.from_config(config, dtype=dtype)  # type: ignore[no-any-return]


def _empty_encoder(name: str) -> Encoder:
    config = config_of(name)
    with load_errors(f"The encoder {name}", "Use a T5, or a model like BERT."):
        return Encoder(AutoModel.from_config(config, dtype=torch.float32), None)  # type: ignore[arg-type]


def _parts(model: MBC) -> dict[str, list[nn.Parameter]]:
    base = list(model.base.parameters())
    modules = {
        "amortizer": model.documents,
        "question encoder": model.questions,
        "codebook": model.codebook,
        "aggregator": model.aggregator,
        "prefix network": model.prefix,
        "router": model.router,
    }
    parts = {
        "base LM": [parameter for parameter in base if not parameter.requires_grad],
        "KV-LoRA": [parameter for parameter in base if parameter.requires_grad],
        **{name: list(module.parameters()) for name, module in modules.items() if module is not None},
    }
    return {name: parameters for name, parameters in parts.items() if parameters}
