"""How well follow-ups are answered alone, after the previous question, and completed by `mbc_engine.conversation`.

    python recipes/mini/measure_follow_ups.py --data ../shared/data

The conversations of `follow_ups.jsonl` are about the Wikinews articles, each with the model's own answers. `asked`
there is the completed question if the previous answers were right; `tests/test_conversation.py` checks it.
"""

import argparse
import json
import tempfile
from pathlib import Path
from statistics import mean
from typing import Final

from mbc_engine import Answer, Memory, ingest, load_model, open_bank
from mbc_engine.conversation import rewritten
from mbc_engine.metrics import compare

WAYS: Final = ("alone", "appended", "completed")


def hold(memory: Memory, turns: list[dict[str, str]], way: str) -> list[Answer]:
    """Answers to follow-ups, whatever their confidence; later questions build on the answers that are shown."""
    answers: list[Answer] = []
    previous: Answer | None = None
    for turn in turns:
        asked = question = turn["question"]
        if previous is not None and way != "alone":
            before = previous.asked or previous.question
            appended = f"{before.rstrip('?')} {question}"
            asked = rewritten(question, before, previous.text) if way == "completed" else appended
        (previous,) = memory.ask([asked])
        answers += memory.ask([asked], min_confidence=0)
    return answers[1:]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--model", default="mini")
    options = parser.parse_args()
    lines = Path(__file__).with_name("follow_ups.jsonl").read_text(encoding="utf-8").splitlines()
    dialogues, model = list(map(json.loads, lines)), load_model(options.model)
    with tempfile.TemporaryDirectory() as place, open_bank(model, Path(place, "bank.mbc")) as bank:
        for _ in ingest(model, bank, [options.data / "news" / "wikinews"]):
            pass
        memory = Memory(bank, model)
        for way in WAYS:
            first, matches = [], []
            for dialogue in dialogues:
                for answer, turn in zip(hold(memory, dialogue["turns"], way), dialogue["turns"][1:], strict=True):
                    first.append(Path(answer.sources[0].path).name == dialogue["file"])
                    matches.append(compare(answer.text or "", turn["answers"], "any"))
            exact, f1 = mean(match.exact_match for match in matches), mean(match.f1 for match in matches)
            print(
                f"{way}: right source first {mean(first):.0%}, EM {100 * exact:.0f}, F1 {100 * f1:.0f}, {len(first)} questions"
            )


if __name__ == "__main__":
    main()
