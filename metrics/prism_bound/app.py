"""The page of the metric prism_bound."""

from pathlib import Path

import evaluate

from hubaudit.modules.page import Option, Page, figure_of

EXAMPLE = """{
  "references": [[3.0, 4.0], [1.0, 0.5], [0.2, 2.0]],
  "predictions": [[3.0, 3.6], [1.1, 0.5], [0.2, 2.1]],
  "base_head": [[1.0, 0.0], [0.0, 1.0], [0.5, 0.5]],
  "labels": [1, 0, 1]
}
"""


def draw(result):
    """The bound's parts beside what they bound."""
    gap = result["risk_gap"]
    return figure_of(
        {
            "bound = delta + gamma": result["bound"],
            "delta (features)": result["delta"],
            "gamma (head)": result["gamma"],
            "largest gap that labels could give": result["logratio_bound"],
            "KL divergence": result["kl"],
            "|risk gap|": None if gap is None else abs(gap),
        },
        xlabel="nats per token",
    )


PAGE = Page(
    metric=type(evaluate.load(str(Path(__file__).resolve().with_name("prism_bound.py")))),
    title="PRISM bound",
    intro=(
        "How far can the variant's risk be from the base's, and what drifted? Give `references` (the base's features "
        "at the input of its output head), `predictions` (the variant's) and `base_head`; if you have them, "
        "`variant_head`, `base_bias`, `variant_bias`, `labels` and `item_ids`. An .npz file suits arrays best."
    ),
    example=EXAMPLE,
    headline=("bound", "delta", "gamma", "dominant_axis", "omega", "risk_gap", "logratio_bound", "kl"),
    draw=draw,
    arrays=("base_head", "variant_head", "base_bias", "variant_bias"),
    options=(
        Option("weights", "What counts the same", "item", ("item", "token")),
        Option("alignment", "Alignment of the features", "identity", ("identity", "procrustes", "joint")),
    ),
)
demo = PAGE.blocks()

if __name__ == "__main__":
    demo.launch()
