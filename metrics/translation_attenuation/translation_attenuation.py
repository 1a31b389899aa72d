"""Translation and attenuation: did a probe's scores move, or did its signal shrink?"""

import datasets
import evaluate

import hubaudit.modules.array_inputs as _array_inputs
import hubaudit.modules.translation_attenuation as _interface

_DESCRIPTION = """
A linear probe that was made for a base model can fail on its variant in two ways: its decision values moved
(translation), which a new threshold repairs, or its classes lie closer together (attenuation), which it does not.
AUROC is blind to the first and does not name the second. This metric measures both with intervals, gives AUROC with
DeLong's test, accuracies at the base's and at refit thresholds, and a verdict with its remedy.
"""

_KWARGS_DESCRIPTION = """
Args:
    predictions (array, n): the variant's decision values; higher means class 1.
    references (array, n): the base's decision values of the same items.
    labels (array of int, n): the classes, 0 or 1, at least two items of each.
    threshold (float): decision threshold in score units; 0 (default) where it is already subtracted.
    base_features (array or tensor, n x d, optional): the base's activations behind the scores.
    variant_features (array or tensor, n x d, optional): the variant's, for refitting the probe.
    translation_margin (float): shift, in base within-class SDs, that does not matter. Default .1.
    attenuation_margin (float): lost share of the separation that does not matter. Default .05.
    seed (int): seed of the bootstrap and of the folds. Default 0.
Returns:
    dict: translation, attenuation, each with ci_low and ci_high, auroc_base, auroc_variant, delong_p, accuracies,
        verdict (none, translation, attenuation, both), remedy and further figures; what is undefined is None, with why
        in `reasons`.
Examples:
    >>> import evaluate
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> labels = np.arange(200) % 2
    >>> base = rng.normal(size=200) + 3 * labels - 1.5
    >>> metric = evaluate.load("translation_attenuation")
    >>> result = metric.compute(predictions=base + 2, references=base, labels=labels)
    >>> result["verdict"], result["auroc_delta"]
    ('translation', 0.0)
"""

_CITATION = """
@article{cosine_is_not_evidence,
  title = {Cosine Similarity Is Not Evidence},
}
"""


class TranslationAttenuation(_array_inputs.ArrayInputs, evaluate.Metric):
    """See the description above."""

    columns = _interface.COLUMNS

    def _info(self):
        value = datasets.Value("float64")
        return evaluate.MetricInfo(
            description=_DESCRIPTION,
            citation=_CITATION,
            inputs_description=_KWARGS_DESCRIPTION,
            features=datasets.Features({"predictions": value, "references": value, "labels": datasets.Value("int64")}),
        )

    def _compute(
        self,
        *,
        predictions,
        references,
        labels,
        base_features=None,
        variant_features=None,
        threshold=0.0,
        translation_margin=0.1,
        attenuation_margin=0.05,
        seed=0,
    ):
        return _interface.compute(
            predictions=predictions,
            references=references,
            labels=labels,
            base_features=base_features,
            variant_features=variant_features,
            threshold=threshold,
            translation_margin=translation_margin,
            attenuation_margin=attenuation_margin,
            seed=seed,
        )
