"""Tiny models with fixed weights, made from configs in milliseconds: two base LMs, two kinds of encoder.

Torch is imported only where it is used: tests of banks and documents run without it.
"""

import gc
import json
import os

os.environ["HF_HUB_OFFLINE"] = "1"
os.environ["TOKENIZERS_PARALLELISM"] = "false"
os.environ["MBC_CODEC"] = "zstd"  # the language model takes a second for a few texts
os.environ["MBC_PRECISION"] = "float32"  # the same on all processors
os.environ["OMP_NUM_THREADS"] = "1"  # also of processes that tests start: all cores are taken

from contextlib import ExitStack, closing
from copy import deepcopy
from dataclasses import dataclass
from pathlib import Path

import hypothesis
import pytest

from mbc_engine.config import parse_config
from mbc_engine.datasets.examples import QAExample
from mbc_engine.runs.event_log import EventLog

# How long an example takes depends on the machine.
hypothesis.settings.register_profile("quick", deadline=None, max_examples=20)
hypothesis.settings.register_profile("thorough", deadline=None, max_examples=200)
hypothesis.settings.load_profile("quick")


def pytest_addoption(parser):
    parser.addoption("--thorough", action="store_true", help="repeat what is random as often as before a release")


def pytest_configure(config):
    gc.disable()  # importing and collecting make almost no garbage; looking for it took a fifth of their time
    if config.getoption("--thorough"):
        hypothesis.settings.load_profile("thorough")


def pytest_collection_finish():
    """Spare the objects of torch and transformers: looking for garbage among them took a sixth of the time."""
    gc.freeze()
    gc.set_threshold(200_000, 10, 10)
    gc.enable()


@pytest.fixture(scope="session")
def rounds(request):
    """How often to repeat something random: `rounds(full=200, reduced=15)`."""

    def rounds(*, full, reduced):
        return full if request.config.getoption("--thorough") else reduced

    return rounds


NAMES = tuple(
    first + last
    for last in ("bo", "dine", "ka", "mir", "ro")
    for first in ("Ada", "Bru", "Cla", "Dari", "Edi", "Feli", "Gre", "Hu", "Ire", "Jona")
)
PLACES = ("Aalen", "Bergen", "Cadiz", "Delft", "Essen", "Ferrara", "Gdansk", "Haifa", "Izmir", "Jena")
SENTENCES = (
    *(f"{name} moved to {PLACES[index % 10]} in the spring." for index, name in enumerate(NAMES)),
    "Where did the baker move? Who moved? Which town did the old painter leave in the winter?",
    "Ada moved. Hugo moved to Haifa. Irene moved to Izmir.",
    "The river rose, the bridge held, and nobody was hurt.",
)


def qa_examples(count):
    """Who moved where: at most 50 documents, no two alike, with a question each."""
    places = [PLACES[(index * 3 + index // 10) % 10] for index in range(len(NAMES))]
    return [
        QAExample(str(index), f"{name} moved to {place}.", f"Where did {name} move?", (place,))
        for index, (name, place) in enumerate(zip(NAMES, places, strict=True))
    ][:count]


def write_questions(path, examples):
    """A file of questions, with their documents and answers."""
    rows = ({"id": one.id, "text": one.text, "question": one.question, "answers": one.answers} for one in examples)
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def write_log(path, *logged):
    """Append events to a log, in a folder that is made if needed."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with closing(EventLog(path)) as log:
        for event in logged:
            log.append(event)


@pytest.fixture
def examples():
    return qa_examples


def byte_level_tokenizer():
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
    from transformers import PreTrainedTokenizerFast

    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=400,
        special_tokens=["<|end|>"],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator(SENTENCES, trainer)
    return PreTrainedTokenizerFast(tokenizer_object=tokenizer, eos_token="<|end|>", bos_token="<|end|>")


def _word_tokenizer(special, template, **roles):
    from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors, trainers
    from transformers import PreTrainedTokenizerFast

    tokenizer = Tokenizer(models.WordLevel(unk_token=roles["unk_token"]))
    tokenizer.normalizer = normalizers.Lowercase()
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    tokenizer.train_from_iterator(SENTENCES, trainers.WordLevelTrainer(special_tokens=special, show_progress=False))
    used = [token for token in special if token in template]
    tokenizer.post_processor = processors.TemplateProcessing(
        single=template, special_tokens=[(token, tokenizer.token_to_id(token)) for token in used]
    )
    return PreTrainedTokenizerFast(tokenizer_object=tokenizer, **roles)


_SIZES = {
    # 32 wide, 2 layers, 4 heads of 8, fused projections
    "gpt2": {"n_embd": 32, "n_layer": 2, "n_head": 4, "n_positions": 160},
    # 4 query heads over 2 key/value heads of 12: neither 32 nor 32 / 4 fits the prefix
    "llama": {
        "hidden_size": 32,
        "intermediate_size": 48,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "head_dim": 12,
        "max_position_embeddings": 160,
    },
    "bert": {
        "hidden_size": 24,
        "intermediate_size": 32,
        "num_hidden_layers": 1,
        "num_attention_heads": 2,
        "max_position_embeddings": 64,
        "pad_token_id": 0,
    },
    "t5": {"d_model": 16, "d_kv": 8, "d_ff": 32, "num_layers": 1, "num_heads": 2, "initializer_factor": 1.0},
}
# As wide as a CPU needs them to compute with 4 bits.
_WIDE_SIZES = {
    "gpt2": {"n_embd": 64, "n_layer": 2, "n_head": 4, "n_positions": 160},
    "llama": {"hidden_size": 64, "intermediate_size": 128, "num_hidden_layers": 2, "num_attention_heads": 4},
    "bert": {"hidden_size": 64, "intermediate_size": 128, "num_hidden_layers": 1, "num_attention_heads": 4},
    "t5": {"d_model": 64, "d_kv": 32, "d_ff": 128, "num_layers": 1, "num_heads": 2},
}


def save_random(folder, family, tokenizer, seed, **sizes):
    """A model of these sizes with fixed weights, and its tokenizer, in a folder."""
    import torch
    from transformers import AutoConfig, AutoModel, AutoModelForCausalLM

    kind = AutoModel if family in ("bert", "t5") else AutoModelForCausalLM
    torch.manual_seed(seed)
    kind.from_config(AutoConfig.for_model(family, vocab_size=len(tokenizer), **sizes)).save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


_BASE = {"initializer_range": 0.3, "bos_token_id": 0, "eos_token_id": 0}


@pytest.fixture(scope="session")
def tiny_gpt2(tmp_path_factory):
    return save_random(tmp_path_factory.mktemp("gpt2"), "gpt2", byte_level_tokenizer(), 1, **_SIZES["gpt2"], **_BASE)


@pytest.fixture(scope="session")
def tiny_llama(tmp_path_factory):
    return save_random(tmp_path_factory.mktemp("llama"), "llama", byte_level_tokenizer(), 2, **_SIZES["llama"], **_BASE)


@pytest.fixture(scope="session")
def chat_lm(tmp_path_factory, tiny_llama):
    """A Llama with a chat template; of its tokens <tool> acts as one but is not called special."""
    from transformers import AddedToken, AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(tiny_llama)
    tokenizer.add_special_tokens({"additional_special_tokens": ["<|user|>", "<|assistant|>"]})
    tokenizer.add_tokens([AddedToken("<tool>", special=False)])
    tokenizer.chat_template = (
        "{% for message in messages %}<|user|>{{ message['content'] }}<|end|>\n{% endfor %}<|assistant|>"
    )
    sizes = {**_SIZES["llama"], "max_position_embeddings": 900}
    return save_random(tmp_path_factory.mktemp("chat"), "llama", tokenizer, 6, **sizes, **_BASE)


@pytest.fixture(scope="session")
def tiny_bert(tmp_path_factory):
    """Its texts are between [CLS] and [SEP]."""
    special = {"pad_token": "[PAD]", "unk_token": "[UNK]", "cls_token": "[CLS]", "sep_token": "[SEP]"}
    tokenizer = _word_tokenizer([*special.values()], "[CLS] $A [SEP]", **special)
    return save_random(tmp_path_factory.mktemp("bert"), "bert", tokenizer, 3, initializer_range=0.3, **_SIZES["bert"])


@pytest.fixture(scope="session")
def tiny_t5(tmp_path_factory):
    """Its texts end in </s>."""
    special = {"pad_token": "<pad>", "eos_token": "</s>", "unk_token": "<unk>"}
    tokenizer = _word_tokenizer([*special.values()], "$A </s>", **special)
    return save_random(tmp_path_factory.mktemp("t5"), "t5", tokenizer, 4, **_SIZES["t5"])


@dataclass(frozen=True)
class TinyModels:
    """Folders of the tiny pretrained models, by family and by kind of encoder."""

    bases: dict[str, Path]
    encoders: dict[str, Path]

    def config(self, base="gpt2", encoder="bert", *overrides):
        """Settings of a tiny model around these, with `section.key=value` changes."""
        text = f"""
            [model]
            base = "{self.bases[base]}"
            tokens = 4
            documents = {{ name = "{self.encoders[encoder]}", window = 32 }}
            questions = {{ name = "{self.encoders[encoder]}", window = 32 }}
            codebook = {{ codes = 8 }}
            aggregator = {{ blocks = 2, heads = 2, head_dim = 8, hidden = 24 }}
            prefix = {{ hidden = 16 }}
            lora = {{ rank = 2, alpha = 4, layers = 1, dropout = 0.0 }}
            [training]
            epochs = 2
            batch_size = 4
            precision = "float32"
            learning_rate = 0.001
        """
        return parse_config(text, "tiny", list(overrides))

    def model(self, base="gpt2", encoder="bert", *overrides):
        """A tiny model with fixed weights, in evaluation mode."""
        import torch

        from mbc_engine.paper.builder import build, load_pretrained

        settings = self.config(base, encoder, *overrides).model
        torch.manual_seed(0)
        return build(settings, load_pretrained(settings)).eval()

    def retriever_reader(self, *words, perhaps=0.25, window=32):
        """A tiny retriever-reader with fixed weights, whose reader finds these words."""
        from mbc_engine.config import RetrieverReaderSettings
        from mbc_engine.mini.model import build
        from tests.finder import Finder

        encoder = str(self.encoders["bert"])
        confidence = {"weights": {"margin": 1.0}, "sure": max(0.5, perhaps), "perhaps": perhaps}
        settings = RetrieverReaderSettings.model_validate(
            {
                "encoder": encoder,
                "window": window,
                "question_window": 32,
                "address": {"tokens": 3, "codes": 8, "dim": 4},
                "candidates": 6,
                "readers": [{"name": "own", "encoder": encoder, "passages": 4, "further": 0, "confidence": confidence}],
            }
        )
        finder = Finder(*words)
        return build(settings, settings.readers[0], lambda: finder)


@pytest.fixture(scope="session")
def tiny(tiny_gpt2, tiny_llama, tiny_bert, tiny_t5):
    """The tiny models. Their weights are read once; copying them takes a fraction of the time."""
    from mbc_engine.lm import pretrained

    load = pretrained._load_weights
    loaded = {}
    folders = {str(folder) for folder in (tiny_gpt2, tiny_llama, tiny_bert, tiny_t5)}

    def load_once(kind, source, config, held, *, name):
        if source not in folders or "quantization_config" in held:
            return load(kind, source, config, held, name=name)
        key = source, kind, repr(sorted(held.items()))
        if key not in loaded:
            loaded[key] = load(kind, source, config, held, name=name)
        return deepcopy(loaded[key])

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(pretrained, "_load_weights", load_once)
        yield TinyModels({"gpt2": tiny_gpt2, "llama": tiny_llama}, {"bert": tiny_bert, "t5": tiny_t5})


@pytest.fixture(scope="session")
def wide(tiny, tmp_path_factory):
    """The tiny models again, 64 wide."""
    from transformers import AutoTokenizer

    def widened(folders):
        return {
            family: save_random(
                *(tmp_path_factory.mktemp(family), family, AutoTokenizer.from_pretrained(folder), 5),
                **{**_BASE, "pad_token_id": 0, **_WIDE_SIZES[family]},
            )
            for family, folder in folders.items()
        }

    return TinyModels(widened(tiny.bases), widened(tiny.encoders))


@pytest.fixture
def remember(tmp_path):
    """Ingests files into the bank b.mbc and returns a memory of it, which stays open."""
    from mbc_engine import Memory, ingest, open_bank

    with ExitStack() as opened:

        def remember(model, *paths, **kept):
            bank = opened.enter_context(open_bank(model, tmp_path / "b.mbc", **kept))
            list(ingest(model, bank, paths))
            return Memory(bank, model)

        yield remember


@pytest.fixture
def folder(tmp_path):
    """Four stories and a picture."""
    folder = tmp_path / "news"
    folder.mkdir()
    for number in range(4):
        (folder / f"{number}.txt").write_text(f"Story number {number}. It rained in the north. Nobody won.")
    (folder / "picture.png").write_bytes(b"\x89PNG")
    return folder
