"""The page of the metric direction_floor."""

from pathlib import Path

import evaluate

from hubaudit.modules.page import Option, Page, figure_of

EXAMPLE = """labels,references.0,references.1,references.2,predictions.0,predictions.1,predictions.2
0,0.1,-0.2,0.3,0.1,-0.1,0.3
0,-0.3,0.2,0.1,-0.2,0.2,0.0
0,0.2,0.1,-0.4,0.2,0.2,-0.4
0,-0.1,-0.3,0.2,-0.1,-0.2,0.1
1,2.1,1.8,2.2,2.0,1.9,2.1
1,1.9,2.3,1.7,1.9,2.2,1.8
1,2.2,2.1,2.4,2.1,2.2,2.3
1,1.7,1.9,2.0,1.8,1.9,2.0
"""


def draw(result):
    """The cosines against the floors."""
    low, high = result["ci_low"], result["ci_high"]
    return figure_of(
        {
            "cosine": result["cosine"],
            "split-half null of the variant": result["own_null_mean"],
            "corrected cosine": result["corrected_cosine"],
        },
        xlabel="cosine between the directions",
        intervals={"corrected cosine": (low, high)},
        lines={
            "floor, two halves": result["floor_half_split"],
            "floor, two independent runs": result["floor_independent"],
        },
    )


PAGE = Page(
    metric=type(evaluate.load(str(Path(__file__).resolve().with_name("direction_floor.py")))),
    title="Direction floor",
    intro=(
        "Did the difference-in-means direction rotate, and could we have seen it? Give `references` (the base's "
        "activations), `predictions` (the variant's) and `labels` (two classes), one row a prompt. A matrix is an "
        "array of an .npz file, a list of lists in JSON, or the columns `references.0`, `references.1`, ... of a CSV."
    ),
    example=EXAMPLE,
    headline=("calibrated_verdict", "corrected_cosine", "ci_low", "ci_high", "rotation_degrees", "cosine", "verdict"),
    draw=draw,
    options=(Option("theta0_degrees", "Rotation that does not matter, in degrees", 5.0),),
)
demo = PAGE.blocks()

if __name__ == "__main__":
    demo.launch()
