"""The methods that can be evaluated, and what each takes: a new method is one entry of `METHODS`."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from mbc_engine.methods.method import Method

if TYPE_CHECKING:
    from mbc_engine.experiments.materials import Materials
    from mbc_engine.methods.token_weights import TokenWeights


@dataclass(frozen=True)
class MethodKind:
    """A method by name.

    Attributes:
        name: as it is asked for.
        title: as tables show it.
        told: what it does, in a line.
        make: the method, from what was prepared.
        needs: what has to be prepared; see `preparing.py`.
        in_paper: whether it is one of the paper's.
        control_of: the method whose bank it takes away or spoils; None for methods of their own.
        spoilt_bank: what that one is asked with, as it follows "with".
        is_told: whether it is told which document a question is about, so that nothing competes with it.
        weights: of a fine-tuning method, how it weighs tokens; its learning rate is chosen on validation questions.
        adapts: whether what it answers changes with the documents that it takes in; else the protocols that let more of
            them come have nothing to show.
        needs_training_data: whether it cannot do without questions to train on, even around a trained model.
        is_retriever_reader: whether it is one, such as mini, and has no base LM; all others are built around one.
    """

    name: str
    title: str
    told: str
    make: Callable[["Materials"], Method]
    needs: tuple[str, ...] = ()
    in_paper: bool = False
    control_of: str | None = None
    spoilt_bank: str = ""
    is_told: bool = False
    weights: Callable[["Materials"], "TokenWeights"] | None = None
    adapts: bool = True
    needs_training_data: bool = False
    is_retriever_reader: bool = False

    @property
    def goes_through_more(self) -> bool:
        """Whether it is asked in the protocols that let more documents come."""
        return self.adapts and self.control_of is None


def _mbc(materials: "Materials") -> Method:
    from mbc_engine.methods.memory_methods import MemoryMethod

    return MemoryMethod(materials.memory_model("mbc"), read_mode=materials.read_mode)


def _mac(materials: "Materials") -> Method:
    from mbc_engine.methods.memory_methods import MemoryMethod

    return MemoryMethod(materials.memory_model("mac"), read_mode=materials.read_mode, keeps_codes=False)


def _empty(materials: "Materials") -> Method:
    from mbc_engine.methods.memory_methods import EmptyBank

    return EmptyBank(materials.memory_model("mbc"), read_mode=materials.read_mode)


def _shuffled_documents(materials: "Materials") -> Method:
    from mbc_engine.methods.memory_methods import shuffled_documents

    return shuffled_documents(materials.memory_model("mbc"), materials.seed, read_mode=materials.read_mode)


def _shuffled_codes(materials: "Materials") -> Method:
    from mbc_engine.methods.memory_methods import shuffled_codes

    return shuffled_codes(materials.memory_model("mbc"), materials.seed, read_mode=materials.read_mode)


def _wrong(materials: "Materials") -> Method:
    from mbc_engine.methods.memory_methods import WrongBank

    return WrongBank(
        materials.memory_model("mbc"), materials.other_documents(), materials.seed, read_mode=materials.read_mode
    )


def _uniform(_materials: "Materials") -> "TokenWeights":
    from mbc_engine.methods.token_weights import uniform

    return uniform


def _salient_spans(_materials: "Materials") -> "TokenWeights":
    from mbc_engine.methods.token_weights import salient_spans

    return salient_spans()


def _camels(materials: "Materials") -> "TokenWeights":
    from mbc_engine.methods.camels import load_weights

    return load_weights(materials.prepared("camels"), materials.device)


def _tf_idf(materials: "Materials") -> "TokenWeights":
    from mbc_engine.methods.token_weights import tf_idf

    return tf_idf(materials.data.training_documents)


def _fine_tuned(
    name: str,
    title: str,
    told: str,
    weights: Callable[["Materials"], "TokenWeights"],
    *further: str,
    in_paper: bool = True,
) -> MethodKind:
    """A method that fine-tunes the base LM trained on questions, at the rate that suits it."""

    def make(materials: "Materials") -> Method:
        from mbc_engine.methods.fine_tuned import FineTuned

        return FineTuned(
            materials.base("questions"),
            weights(materials),
            rate=materials.rates[name],
            optimiser=materials.optimiser,
            window=materials.settings.document_window,
        )

    return MethodKind(
        name, title, told, make, ("questions", *further), in_paper, weights=weights, needs_training_data=True
    )


def _closed_book(materials: "Materials") -> Method:
    from mbc_engine.methods.reading import ClosedBook

    return ClosedBook(materials.base("questions"))


def _bm25(materials: "Materials") -> Method:
    from mbc_engine.methods.reading import BM25Reading

    return BM25Reading(materials.base("reader"))


def _oracle(materials: "Materials") -> Method:
    from mbc_engine.methods.reading import OracleReading

    return OracleReading(materials.base("reader"), materials.document_of_questions())


def _retriever_reader(materials: "Materials") -> Method:
    from mbc_engine.methods.reading import RetrieveAndRead

    return RetrieveAndRead(materials.retriever_reader())


_MEMORY, _QUESTIONS, _READER = ("mbc",), ("questions",), ("reader",)

METHODS: Mapping[str, MethodKind] = {
    kind.name: kind
    for kind in (
        MethodKind("mbc", "MBC", "the paper's model: documents as codes", _mbc, _MEMORY, in_paper=True),
        MethodKind(
            "mac",
            "MAC",
            "the same without codes and KV-LoRA: documents as vectors",
            _mac,
            ("mac",),
            in_paper=True,
            needs_training_data=True,
        ),
        _fine_tuned("uniform", "Uniform", "fine-tuning on every document, all tokens alike", _uniform),
        _fine_tuned("salient-spans", "Salient Spans", "fine-tuning on names and dates alone", _salient_spans),
        _fine_tuned("camels", "CaMeLS", "fine-tuning with meta-learned token weights", _camels, "camels"),
        _fine_tuned("tf-idf", "TF-IDF", "fine-tuning, rare words weigh more", _tf_idf, in_paper=False),
        MethodKind(
            "closed-book", "Closed book", "the base LM without any document", _closed_book, _QUESTIONS, adapts=False
        ),
        MethodKind("bm25", "BM25 + reading", "the base LM reads the text that BM25 finds", _bm25, _READER),
        MethodKind(
            "oracle",
            "Oracle document",
            "the base LM reads the right document",
            _oracle,
            _READER,
            is_told=True,
            adapts=False,
        ),
        MethodKind(
            "retriever-reader",
            "Retriever-reader",
            "a model such as mini finds passages and reads the answer in them",
            _retriever_reader,
            is_retriever_reader=True,
        ),
        MethodKind(
            "mbc-empty",
            "MBC, empty bank",
            "nothing is remembered",
            _empty,
            _MEMORY,
            control_of="mbc",
            spoilt_bank="an empty bank",
        ),
        MethodKind(
            "mbc-shuffled-documents",
            "MBC, codes shuffled over documents",
            "each position's codes change documents",
            _shuffled_documents,
            _MEMORY,
            control_of="mbc",
            spoilt_bank="codes shuffled over the documents",
        ),
        MethodKind(
            "mbc-shuffled-codes",
            "MBC, codes shuffled over the codebook",
            "every code means another vector",
            _shuffled_codes,
            _MEMORY,
            control_of="mbc",
            spoilt_bank="codes shuffled over the codebook",
        ),
        MethodKind(
            "mbc-wrong",
            "MBC, wrong bank",
            "as many documents, but others",
            _wrong,
            _MEMORY,
            control_of="mbc",
            spoilt_bank="a bank of other documents",
        ),
    )
}


def controls_of(method: str) -> tuple[str, ...]:
    """What a method has to beat before its figures mean anything: its spoilt banks, and the LM without documents."""
    kind = METHODS[method]
    if kind.control_of is not None or kind.is_retriever_reader or method == "closed-book":
        return ()
    spoilt = tuple(kind.name for kind in METHODS.values() if kind.control_of == method)
    return spoilt or ("closed-book",)
