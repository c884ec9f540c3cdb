"""Train a small memory on made-up news, about a minute on two cores, and evaluate the resulting model.

    python recipes/newswire/generate.py train 166 > news.jsonl
    python examples/train_tiny.py news.jsonl [BASE]

It starts from SmolLM2 and MiniLM, or another base LM. A memory that answers well takes far more stories and hours; this
shows the events of a training run and what it writes to `tiny-run/`.
"""

import sys
from pathlib import Path

from mbc_engine import MBC, MemoryMethod, evaluate, load_examples, load_model, load_preset, run_to_completion, train
from mbc_engine.events import Event, TrainFinished, TrainStep, Validated

RUN = Path("tiny-run")


def show(event: Event) -> None:
    match event:
        case TrainStep():
            print(f"step {event.step}: loss {event.loss:.2f}, {event.examples_per_second:.0f} examples/s")
        case Validated(first_source=float(found)):
            print(
                f"validated: the right one of 8 documents is found for {found:.0f}% of the questions, F1 {event.f1:.1f}%"
            )
        case TrainFinished():
            print(f"the model is in {event.model}")


def main(data: str, *base: str) -> None:
    unseen, validation, examples = (load_examples(f"{data}{part}") for part in ("[:8]", "[8:16]", "[16:]"))
    codes = min(64, len({example.text for example in examples}))  # at most one per document to fit them to
    changes = ["training.epochs=1", f"model.codebook.codes={codes}", "model.codebook.levels=1"]
    config = load_preset("smollm2-135m", [*changes, *(f"model.base={name}" for name in base)])
    for event in train(config, examples, validation, RUN, cache=RUN / "states"):
        show(event)
    model = load_model(RUN / "model")
    assert isinstance(model, MBC)
    scores = run_to_completion(evaluate(MemoryMethod(model), unseen)).scores
    print(
        f"unseen news: the right one of 8 documents is found for {scores.first_source:.0f}% of {scores.questions} questions"
    )


if __name__ == "__main__":
    main(*sys.argv[1:])
