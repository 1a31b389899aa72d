"""The page of the metric correctness_agreement."""

from pathlib import Path

import evaluate

from hubaudit.modules.page import Option, Page, figure_of

EXAMPLE = """item_ids,references,base_predictions,predictions
q1,A,A,A
q2,B,B,B
q3,B,B,C
q4,C,A,D
q5,D,A,D
"""


def draw(result):
    """Agreement with its interval and ceiling, beside both accuracies."""
    return figure_of(
        {
            "correctness agreement": result["correctness_agreement"],
            "base accuracy": result["base_accuracy"],
            "variant accuracy": result["variant_accuracy"],
        },
        xlabel="share of items",
        intervals={"correctness agreement": (result["ci_low"], result["ci_high"])},
        lines={"ceiling of the agreement": result["ceiling"]},
    )


PAGE = Page(
    metric=type(evaluate.load(str(Path(__file__).resolve().with_name("correctness_agreement.py")))),
    title="Correctness agreement",
    intro=(
        "Of what the base answers right, how much does the variant still answer right? Give `references`, "
        "`base_predictions` and `predictions` (the variant's), one row an item; `item_ids` and `subjects` if you like."
    ),
    example=EXAMPLE,
    headline=("correctness_agreement", "ci_low", "ci_high", "regressions", "recoveries", "accuracy_delta", "mcnemar_p"),
    draw=draw,
    options=(Option("tost_margin", "Accuracy difference that does not matter", 0.02),),
)
demo = PAGE.blocks()

if __name__ == "__main__":
    demo.launch()
