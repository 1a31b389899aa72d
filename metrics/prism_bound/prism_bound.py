"""PRISM bound: how far can the variant's risk be from the base's, and which part of the model drifted?"""

import datasets
import evaluate

import hubaudit.modules.array_inputs as _array_inputs
import hubaudit.modules.prism_bound as _interface

_DESCRIPTION = """
PRISM bounds the difference of the cross-entropies of a base model and its variant (a quantized or fine-tuned copy) from
the features at the input of the output head: |risk gap| <= delta + gamma. The bound splits into drift of scale, shape
and head. Beside it stand what it hides: the gap itself split into features and head, the KL divergence over the
whole vocabulary, and the largest gap that any labels could give on these positions.
"""

_KWARGS_DESCRIPTION = """
Args:
    predictions (array or tensor, n x d): the variant's features at the input of its output head (Z_P).
    references (array or tensor, n x d): the base's features of the same token positions (Z_T).
    base_head (array or tensor, V x d): the base's output head, one row a token.
    variant_head (array or tensor, V x d, optional): the variant's head; the base's where it is not given.
    base_bias, variant_bias (array or tensor, V, optional): biases of the heads.
    scale (float): multiplier of the logits, of both heads. Default 1.
    softcap (float, optional): c where the logits are c * tanh(v / c), of both heads.
    labels (array of int, optional): the token that follows each position, for the risks and their gap.
    item_ids (list of str or int, optional): the item that each position belongs to; each its own where not given.
    weights (str): `item` (every item counts the same, then its tokens; default) or `token`.
    alignment (str or array, d x d): `identity` (default), `procrustes`, `joint`, or an orthogonal matrix.
    k_feat (float, optional): the head's constant k_feat of an earlier result, to save its computation.
Returns:
    dict: bound, delta, gamma, scale, shape, omega, dominant_axis, logratio_bound, kl, risk_gap, gap_features, gap_head
        and further figures, in nats per token; what is undefined is None, with why in `reasons`.
Examples:
    >>> import evaluate
    >>> metric = evaluate.load("prism_bound")
    >>> result = metric.compute(
    ...     predictions=[[3.0, 3.0]], references=[[3.0, 4.0]], base_head=[[1.0, 0.0], [0.0, 1.0]], labels=[1]
    ... )
    >>> round(result["bound"], 4), round(result["risk_gap"], 4), result["dominant_axis"]
    (1.4142, 0.3799, 'scale')
"""

_CITATION = """
@article{prism,
  title = {{PRISM}},
}
"""


class PrismBound(_array_inputs.ArrayInputs, evaluate.Metric):
    """See the description above."""

    columns = _interface.COLUMNS

    def _info(self):
        row = datasets.Sequence(datasets.Value("float64"))
        return evaluate.MetricInfo(
            description=_DESCRIPTION,
            citation=_CITATION,
            inputs_description=_KWARGS_DESCRIPTION,
            features=datasets.Features({"predictions": row, "references": row}),
        )

    def _compute(
        self,
        *,
        predictions,
        references,
        base_head=None,
        variant_head=None,
        base_bias=None,
        variant_bias=None,
        scale=1.0,
        softcap=None,
        labels=None,
        item_ids=None,
        weights="item",
        alignment="identity",
        k_feat=None,
    ):
        return _interface.compute(
            predictions=predictions,
            references=references,
            base_head=base_head,
            variant_head=variant_head,
            base_bias=base_bias,
            variant_bias=variant_bias,
            scale=scale,
            softcap=softcap,
            labels=labels,
            item_ids=item_ids,
            weights=weights,
            alignment=alignment,
            k_feat=k_feat,
        )
