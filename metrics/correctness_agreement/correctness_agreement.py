"""Correctness agreement: of what the base answers right, how much does the variant still answer right?"""

import datasets
import evaluate

import hubaudit.modules.array_inputs as _array_inputs
import hubaudit.modules.correctness_agreement as _interface

_DESCRIPTION = """
Correctness agreement is the share of the items that a base model answers correctly which its variant (a quantized or
fine-tuned copy) answers correctly too. Two models can have the same accuracy and yet be right about different items.
With it come intervals, the counts of regressions and recoveries, the exact McNemar test, an equivalence test for
paired proportions and the smallest accuracy difference that this many items could have shown.
"""

_KWARGS_DESCRIPTION = """
Args:
    predictions (list of str, int or None): the variant's answers, one an item; None where it gave none.
    base_predictions (list of str, int or None): the base's answers to the same items in the same order.
    references (list of str or int): the right answers.
    item_ids (list of str or int, optional): names of the items, each once.
    subjects (list of str, optional): the subject of each item, for a breakdown in `by_subject`.
    tost_margin (float): accuracy difference below which the models count as equivalent. Default .02.
    seed (int): seed of the paired bootstrap. Default 0.
Returns:
    dict: correctness_agreement, ci_low, ci_high, base_accuracy, variant_accuracy, accuracy_delta, regressions,
        recoveries, mcnemar_p, tost_p, mde and further figures; what is undefined is None, with why in `reasons`.
Examples:
    >>> import evaluate
    >>> metric = evaluate.load("correctness_agreement")
    >>> result = metric.compute(
    ...     predictions=["A", "B", "C", "D"],
    ...     base_predictions=["A", "B", "B", "A"],
    ...     references=["A", "B", "B", "C"],
    ... )
    >>> round(result["correctness_agreement"], 3), result["regressions"], result["recoveries"]
    (0.667, 1, 0)
"""

_CITATION = """
@article{illusion_of_equivalency,
  title = {The Illusion of Equivalency: Statistical Characterization of Quantization Effects in {LLM}s},
}
"""


class CorrectnessAgreement(_array_inputs.ArrayInputs, evaluate.Metric):
    """See the description above."""

    columns = _interface.COLUMNS

    def _info(self):
        features = [
            datasets.Features(dict.fromkeys(("predictions", "base_predictions", "references"), datasets.Value(kind)))
            for kind in ("string", "int64")
        ]
        return evaluate.MetricInfo(
            description=_DESCRIPTION,
            citation=_CITATION,
            inputs_description=_KWARGS_DESCRIPTION,
            features=features,
        )

    def _compute(
        self,
        *,
        predictions,
        base_predictions,
        references,
        item_ids=None,
        subjects=None,
        tost_margin=0.02,
        seed=0,
    ):
        return _interface.compute(
            predictions=predictions,
            base_predictions=base_predictions,
            references=references,
            item_ids=item_ids,
            subjects=subjects,
            tost_margin=tost_margin,
            seed=seed,
        )
