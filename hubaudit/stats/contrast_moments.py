"""Unbiased second moments of a difference of class means, and how they vary from sample to sample.

A kernel K is an (n, n) symmetric matrix of inner products between prompts: a model's own, or one that mixes two
models. With weights a = (1/n_a in class A, -1/n_b in B), `a'Ka` is the squared length of the difference of
class means, estimator noise included; taking the noise's trace off gives the two-sample U-statistic, in which no
prompt meets itself.
"""

from __future__ import annotations

import math

import numpy as np

from hubaudit.stats.paired_contrast import BoolArray, FloatArray

__all__ = ["influence_rows", "noise_matrix", "noise_trace", "unbiased_moment"]


def noise_trace(kernel: FloatArray, in_a: BoolArray) -> float:
    """Expected estimator noise in a'Ka: the sum over classes of tr Cov_c / n_c.

    Args:
        kernel: (n, n) symmetric inner products.
        in_a: (n,) True for class A.

    Returns:
        tr Cov_A / n_a + tr Cov_B / n_b, covariances with divisor n_c - 1.
    """
    total = 0.0
    for members in (in_a, ~in_a):
        n_c = int(members.sum())
        block = kernel[np.ix_(members, members)]
        scatter = float(np.trace(block)) - float(block.sum()) / n_c
        total += scatter / (n_c - 1) / n_c
    return total


def unbiased_moment(kernel: FloatArray, in_a: BoolArray) -> float:
    """Unbiased estimate of the inner product of the two true differences of class means.

    Args:
        kernel: (n, n) symmetric inner products between rows of one model, or of two.
        in_a: (n,) True for class A.

    Returns:
        a'Ka - tr Cov_A/n_a - tr Cov_B/n_b. It can be negative.
    """
    weights = _weights(in_a)
    return float(weights @ kernel @ weights) - noise_trace(kernel, in_a)


def influence_rows(kernel: FloatArray, in_a: BoolArray) -> FloatArray:
    """First-order influence of each prompt on the unbiased moment.

    Args:
        kernel: (n, n) symmetric inner products.
        in_a: (n,) True for class A.

    Returns:
        (n,) influences that sum to 0 in each class; the sum of their squares estimates the first-order variance
        of `unbiased_moment` plus 4 tr(N^2) with N = Cov_A/n_a + Cov_B/n_b, nearly twice its second-order variance.
    """
    weights = _weights(in_a)
    influences = 2.0 * (kernel @ weights)
    for members in (in_a, ~in_a):
        n_c = int(members.sum())
        influences[members] -= influences[members].mean()
        # sqrt(n_c (n_c - 1)) for n_c: with the mean removed, n_c - 1 rows are left of n_c.
        influences[members] *= weights[members] * math.sqrt(n_c / (n_c - 1))
    return influences


def noise_matrix(kernel: FloatArray, in_a: BoolArray) -> FloatArray:
    """Second-order part of the unbiased moment: what the pairs of prompts add to its variance.

    Blocks within a class are U-centred (their entries off the diagonal have mean zero for any n), the block
    between the classes is double-centred, and each is scaled so that twice the sum of products of two kernels'
    matrices estimates the covariance of their second-order parts without bias.

    Args:
        kernel: (n, n) symmetric inner products.
        in_a: (n,) True for class A; both classes hold at least 4 prompts.

    Returns:
        (n, n) symmetric matrix with a zero diagonal.

    Source:
        U-centring: Szekely and Rizzo (2014), Partial distance correlation, Annals of Statistics 42(6), Sec. 2.
    """
    result = np.zeros_like(kernel)
    for members in (in_a, ~in_a):
        n_c = int(members.sum())
        block = kernel[np.ix_(members, members)].copy()
        np.fill_diagonal(block, 0.0)
        sums = block.sum(axis=1) / (n_c - 2)
        centred = block - sums[:, None] - sums[None, :] + sums.sum() / (n_c - 1)
        np.fill_diagonal(centred, 0.0)
        result[np.ix_(members, members)] = centred / (n_c * np.sqrt((n_c - 1.0) * (n_c - 3.0)))
    cross = kernel[np.ix_(in_a, ~in_a)]
    cross = cross - cross.mean(axis=0) - cross.mean(axis=1, keepdims=True) + cross.mean()
    n_a, n_b = cross.shape
    cross = cross / -np.sqrt(n_a * n_b * (n_a - 1.0) * (n_b - 1.0))
    result[np.ix_(in_a, ~in_a)] = cross
    result[np.ix_(~in_a, in_a)] = cross.T
    return result


def _weights(in_a: BoolArray) -> FloatArray:
    n_a = int(in_a.sum())
    return np.where(in_a, 1.0 / n_a, -1.0 / (in_a.size - n_a))
