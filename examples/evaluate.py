"""How well a memory answers, and whether it is the memory that answers: the same questions with an empty one.

    python examples/evaluate.py [STORIES]

The questions are about generated news that the model has never seen.
"""

import sys

from mbc_engine import Compressed, EmptyBank, evaluate, load_examples, load_model, result_of


def main(stories: int) -> None:
    model, examples = load_model("mini"), load_examples(f"newswire:test:{stories}")
    for method in (Compressed(model), EmptyBank(model)):
        scores = result_of(evaluate(method, examples)).online.scores
        match, f1 = scores.exact_match, scores.f1
        print(f"{type(method).__name__}: {scores.questions} questions")
        print(
            f"  exact match {match.value:.1f}% (95% interval {match.low:.1f} to {match.high:.1f}), F1 {f1.value:.1f}%"
        )


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 32)
