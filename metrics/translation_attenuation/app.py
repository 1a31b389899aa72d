"""The page of the metric translation_attenuation."""

from pathlib import Path

import evaluate

from hubaudit.modules.page import Option, Page, figure_of

EXAMPLE = """labels,references,predictions
0,-1.2,0.9
0,-0.4,1.5
0,-2.0,0.1
0,-0.9,1.0
0,-1.6,0.3
0,-0.1,2.1
0,-1.1,0.8
0,-0.7,1.4
1,1.3,3.2
1,0.6,2.7
1,2.1,4.0
1,1.0,3.1
1,1.7,3.6
1,0.2,2.1
1,0.9,2.8
1,1.4,3.5
"""


def draw(result):
    """Shift and lost share with their intervals."""
    names = {"translation (SD)": "translation", "attenuation (share)": "attenuation"}
    return figure_of(
        {label: result[key] for label, key in names.items()},
        xlabel="base within-class SDs; share of the class separation",
        intervals={label: (result[f"{key}_ci_low"], result[f"{key}_ci_high"]) for label, key in names.items()},
        lines={"no change": 0.0},
    )


PAGE = Page(
    metric=type(evaluate.load(str(Path(__file__).resolve().with_name("translation_attenuation.py")))),
    title="Translation and attenuation",
    intro=(
        "Did a probe's scores move, or did its signal shrink? Give `references` (the base's decision values), "
        "`predictions` (the variant's) and `labels` (0 or 1), one row an item; `variant_features` if the probe may be "
        "refit."
    ),
    example=EXAMPLE,
    headline=("verdict", "remedy", "translation", "attenuation", "auroc_base", "auroc_variant", "delong_p"),
    draw=draw,
    options=(Option("threshold", "Decision threshold, in score units", 0.0),),
)
demo = PAGE.blocks()

if __name__ == "__main__":
    demo.launch()
