"""Train a small memory on generated news, about a minute on two cores, and evaluate the resulting model.

    python examples/train_tiny.py [STORIES [BASE]]

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


def main(stories: int, *base: str) -> None:
    codes = min(64, stories)  # at most one code per document to fit them to
    changes = ["training.epochs=1", f"model.codebook.codes={codes}", "model.codebook.levels=1"]
    config = load_preset("smollm2-135m", [*changes, *(f"model.base={name}" for name in base)])
    examples, validation = load_examples(f"newswire:train:{stories}"), load_examples("newswire:validation:8")
    for event in train(config, examples, validation, RUN, cache=RUN / "states"):
        show(event)
    unseen = load_examples("newswire:test:8")
    model = load_model(RUN / "model")
    assert isinstance(model, MBC)
    scores = run_to_completion(evaluate(MemoryMethod(model), unseen)).online.scores
    print(
        f"unseen news: the right one of 8 documents is found for {scores.first_source:.0f}% of {scores.questions} questions"
    )


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 150, *sys.argv[2:])
