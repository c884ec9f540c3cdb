"""Stage 4 of `mini`: what the frozen encoder makes of the memory's training texts, computed once.

    python recipes/mini/states.py --data ../shared/data --base build/mini/base --out build/mini/states

For every dataset a folder with the states of its documents' word pieces and of its questions' tokens, in half
precision, and `index.npz`, which says what lies where. Datasets that are there already are passed over.
"""

import json
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import torch
from encoder import ENCODER
from options import stage_parser
from torch import Tensor
from transformers import AutoTokenizer

from mbc_engine.datasets.by_name import load_examples
from mbc_engine.metrics import shortest
from mbc_engine.model.answer_chunks import within_window
from mbc_engine.model.chunker import Chunker
from mbc_engine.model.encoders import Encoder, load_encoder
from mbc_engine.model.word_pieces import PieceAligner

DATASETS = {
    "validation": "newswire:validation:300",
    "squad": "{data}/qa/squad_train_part.jsonl.xz",
    "news": "newswire:train:14000:3",
    "reddit": "{data}/qa/squadshifts_reddit.jsonl.xz[0:1200]",
    "amazon": "{data}/qa/squadshifts_amazon.jsonl.xz[0:1200]",
    "newspapers": "{data}/qa/archivalqa_like.jsonl.xz",
    "sentences": "{data}/qa/qamr_dev.jsonl.xz",
}
BATCH = 64


def encoded(encoder: Encoder, texts: Sequence[str], window: int) -> Iterator[tuple[list[int], Tensor, Tensor, Tensor]]:
    """Texts of one length together: their numbers, the states [B, S, E], the mask and the tokens' characters."""
    device = encoder.model.device
    order = sorted(range(len(texts)), key=lambda number: len(texts[number]))
    for start in range(0, len(order), BATCH):
        own = order[start : start + BATCH]
        batch = encoder.tokenizer(
            [texts[number] for number in own],
            padding=True,
            truncation=True,
            max_length=window,
            return_tensors="pt",
            return_offsets_mapping=True,
        ).to(device)
        with torch.no_grad(), torch.autocast(device.type, torch.bfloat16):
            states = encoder.model(batch["input_ids"], batch["attention_mask"]).last_hidden_state.float()
        yield own, states, batch["attention_mask"].bool(), batch["offset_mapping"]


class Table:
    """Rows of half-precision numbers in a file, and where those of each text are."""

    def __init__(self, path: Path, texts: int) -> None:
        self.start, self.count = np.zeros(texts, np.int64), np.zeros(texts, np.int64)
        self._file, self._rows = path.open("wb"), 0

    def add(self, text: int, rows: Tensor) -> None:
        self.start[text], self.count[text] = self._rows, len(rows)
        self._rows += len(rows)
        self._file.write(rows.half().cpu().numpy().tobytes())

    def close(self) -> None:
        self._file.close()


def write(spec: str, out: Path, encoder: Encoder, aligner: PieceAligner, windows: tuple[int, int]) -> None:
    chunker = Chunker(encoder.tokenizer.backend_tokenizer, windows[0] - encoder.tokenizer.num_special_tokens_to_add())
    examples = within_window(load_examples(spec), chunker)
    documents = list(dict.fromkeys(example.text for example in examples))
    place = {text: number for number, text in enumerate(documents)}
    partial = out.with_suffix(".partial")
    partial.mkdir(parents=True, exist_ok=True)

    table, found = Table(partial / "documents.f16", len(documents)), [np.zeros((0, 3), np.int32)] * len(documents)
    for own, states, _, offsets in encoded(encoder, documents, windows[0]):
        pieces = aligner([documents[number] for number in own], offsets)
        pooled = pieces.states(states)
        for row, number in enumerate(own):
            count = int(pieces.mask[row].sum())
            table.add(number, pooled[row, :count])
            found[number] = torch.cat([pieces.ids[row, :count, None], pieces.spans[row, :count]], 1).int().cpu().numpy()
    table.close()
    questions = Table(partial / "questions.f16", len(examples))
    for own, states, mask, _ in encoded(encoder, [example.question for example in examples], windows[1]):
        for row, number in enumerate(own):
            questions.add(number, states[row][mask[row]])
    questions.close()

    order = np.argsort(table.start, kind="stable")
    np.savez(
        partial / "index.npz",
        pieces=np.concatenate([found[number] for number in order]),  # [rows of documents.f16, (piece, from, to)]
        document_start=table.start,
        document_count=table.count,
        question_start=questions.start,
        question_count=questions.count,
        document_of=np.array([place[example.text] for example in examples]),
    )
    asked = [[example.question, shortest(example.answers)] for example in examples]
    (partial / "texts.json").write_text(json.dumps({"documents": documents, "asked": asked}))
    partial.rename(out)


def main() -> None:
    args = stage_parser(__doc__, "data", "base", "out", "threads", "device").parse_args()
    torch.set_num_threads(args.threads)
    encoder = load_encoder(ENCODER, device=args.device)
    encoder.model.eval()
    aligner = PieceAligner(AutoTokenizer.from_pretrained(args.base))
    for name, spec in DATASETS.items():
        if not (args.out / name).exists():
            began = time.monotonic()
            write(spec.format(data=args.data), args.out / name, encoder, aligner, (256, 128))
            print(f"{name}: {time.monotonic() - began:.0f} s", flush=True)


if __name__ == "__main__":
    main()
