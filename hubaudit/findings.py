"""The list of findings: one table for the code, `--help`, `--fail-on` and the README."""

from __future__ import annotations

__all__ = ["FINDINGS", "SEVERITIES"]

SEVERITIES = ("warning", "notice", "info")

FINDINGS: dict[str, str] = {
    "accuracy_drop": "the variant is less accurate: exact McNemar test, Holm over tasks and variants, 5 %",
    "answers_changed": "the accuracies do not differ detectably, yet at least 5 % of the answers changed",
    "equivalent_accuracy": "Tango's test: the accuracies differ by less than the margin",
    "small_sample": "with this n, an accuracy difference below the one named cannot be seen",
    "drift_scale": "the bound's largest part is a change of the features' scale",
    "drift_shape": "the bound's largest part is a change of the features' shape",
    "drift_head": "the bound's largest part is the head; the remedy depends on the gap it really causes",
    "risk_increase": "the variant's risk rose by more than the compute floor, and which part causes it",
    "below_compute_floor": "the drift is not larger than what another dtype or batch changes in the base itself",
    "identical_to_base": "no feature and no logit differs from the base: on these texts the variant is the base",
    "not_quantized": "the variant claims to be quantized, but no parameter is stored quantized",
    "direction_rotated": "the contrast direction rotated beyond theta0: calibrated test, Holm over layers, 5 %",
    "direction_preserved": "the contrast direction rotated by less than theta0 at every layer",
    "direction_inconclusive": "this n cannot tell whether the contrast direction rotated beyond theta0",
    "direction_noisier": "the variant's direction is a noisier estimate of the same direction",
    "monitor_translation": "the monitor's scores are shifted: recalibrate its threshold",
    "monitor_attenuation": "the monitor's signal has faded: refit the probe",
    "non_finite": "some logits are NaN or infinite; those tokens are left out of the means and counted",
    "vocabulary_differs": "base and variant have heads of different length; the extra rows were left out",
    "tokenizer_differs": "the variant's tokenizer names other tokens, or uses others to begin and end, than the base's",
    "chat_template_differs": "the variant's chat template is not the base's",
    "incomparable_features": "base and variant have different widths: no bound and no direction, agreement stays",
    "dataset_replaced": "a dataset could not be read and the built-in set was used in its place",
    "no_chat_template": "the base has no chat template; the contrast prompts were used as they are",
    "children_left_out": "--discover left children of the base out; the text says which and why",
    "none_discovered": "--discover found no child of the base that can be audited",
    "variant_failed": "the variant could not be audited; the message says why",
}
