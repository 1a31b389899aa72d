"""Direction floor: did the difference-in-means direction of a layer rotate, and could we have seen it?"""

import datasets
import evaluate

import hubaudit.modules.array_inputs as _array_inputs
import hubaudit.modules.direction_floor as _interface

_DESCRIPTION = """
The cosine between the difference-in-means directions of a base model and its variant is below 1 even where nothing
rotated, because both are estimated from few prompts. This metric gives the cosine together with the noise floor that it
must be read against, the split-half null, the paper's rule, and a calibrated test: the cosine with estimation noise
removed, its interval, the rotation in degrees, and the smallest rotation that these prompts could have shown.
"""

_KWARGS_DESCRIPTION = """
Args:
    predictions (array or tensor, n x d): the variant's activations at one layer, one row a prompt.
    references (array or tensor, n x d): the base's activations for the same prompts in the same order.
    labels (list of int or str): the class of each prompt; exactly two values, at least 2 prompts of each.
    theta0_degrees (float): rotation that counts as too small to matter. Default 5.
    n_splits (int): random splits of the null. Default 200.
    seed (int): seed of the splits. Default 0.
Returns:
    dict: cosine, floor_half_split, floor_independent, own_null_mean, own_null_sd, verdict, corrected_cosine, ci_low,
        ci_high, rotation_degrees, rotation_detected, min_detectable_degrees, calibrated_verdict and further figures;
        what is undefined is None, with why in `reasons`.
Examples:
    >>> import evaluate
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> labels = np.repeat([0, 1], 64)
    >>> base = rng.normal(size=(128, 32)) + np.outer(labels, np.full(32, 0.5))
    >>> metric = evaluate.load("direction_floor")
    >>> result = metric.compute(predictions=base, references=base, labels=labels)
    >>> result["corrected_cosine"], result["rotation_detected"]
    (1.0, False)
"""

_CITATION = """
@article{cosine_is_not_evidence,
  title = {Cosine Similarity Is Not Evidence},
}
"""


class DirectionFloor(_array_inputs.ArrayInputs, evaluate.Metric):
    """See the description above."""

    columns = _interface.COLUMNS

    def _info(self):
        row = datasets.Sequence(datasets.Value("float64"))
        features = [
            datasets.Features({"predictions": row, "references": row, "labels": datasets.Value(kind)})
            for kind in ("int64", "string")
        ]
        return evaluate.MetricInfo(
            description=_DESCRIPTION,
            citation=_CITATION,
            inputs_description=_KWARGS_DESCRIPTION,
            features=features,
        )

    def _compute(self, *, predictions, references, labels, theta0_degrees=5.0, n_splits=200, seed=0):
        return _interface.compute(
            predictions=predictions,
            references=references,
            labels=labels,
            theta0_degrees=theta0_degrees,
            n_splits=n_splits,
            seed=seed,
        )
