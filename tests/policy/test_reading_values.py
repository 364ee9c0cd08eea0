"""Quantities and label selectors mean what Kubernetes takes them for."""

from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from policy.field import Field
from policy.plain import UNKNOWN
from policy.quantity import quantity
from policy.selection import names_some, selects


@pytest.mark.parametrize(
    ("text", "amount"),
    [
        ("500m", "0.5"),
        ("1", "1"),
        (2, "2"),
        (0.5, "0.5"),
        ("1.5Gi", str(3 * 2**29)),
        ("1k", "1000"),
        ("1Ki", "1024"),
        ("1e3", "1000"),
        ("1E3", "1000"),
        ("1E", "1e18"),
        ("100n", "1e-7"),
        ("-1", "-1"),
        (".5", "0.5"),
    ],
)
def test_quantity(text: Any, amount: str) -> None:
    """Every form that the API takes is read as the API reads it."""
    assert quantity(text) == Decimal(amount)


@pytest.mark.parametrize("text", ["", "1GB", "1 Gi", "Gi", "0x10", "1e", "NaN", "inf", None, True, [], "1\n", "\u0661"])
def test_no_quantity(text: Any) -> None:
    """What the API refuses is no amount."""
    assert quantity(text) is None


@given(st.text() | st.floats() | st.integers())
def test_quantity_never_raises(value: Any) -> None:
    """Whatever stands in a manifest is an amount or none."""
    amount = quantity(value)

    assert amount is None or amount.is_finite()


@pytest.mark.parametrize(
    ("selector", "found"),
    [
        ({}, True),
        (None, True),
        ({"matchLabels": {"app": "a"}}, True),
        ({"matchLabels": {"app": "b"}}, False),
        ({"matchLabels": {"app": "a", "tier": "x"}}, False),
        ({"matchExpressions": [{"key": "app", "operator": "In", "values": ["a", "b"]}]}, True),
        ({"matchExpressions": [{"key": "tier", "operator": "In", "values": ["a"]}]}, False),
        ({"matchExpressions": [{"key": "app", "operator": "NotIn", "values": ["b"]}]}, True),
        ({"matchExpressions": [{"key": "app", "operator": "NotIn", "values": ["a"]}]}, False),
        ({"matchExpressions": [{"key": "tier", "operator": "NotIn", "values": ["a"]}]}, True),
        ({"matchExpressions": [{"key": "app", "operator": "Exists"}]}, True),
        ({"matchExpressions": [{"key": "tier", "operator": "Exists"}]}, False),
        ({"matchExpressions": [{"key": "tier", "operator": "DoesNotExist"}]}, True),
        ({"matchExpressions": [{"key": "app", "operator": "DoesNotExist"}]}, False),
        ({"matchExpressions": [{"key": "pod-template-hash", "operator": "DoesNotExist"}]}, False),
        ({"matchExpressions": [{"key": "app", "operator": "Gt", "values": ["0"]}]}, False),
        ({"matchExpressions": "all"}, False),
        ("all", False),
    ],
)
def test_selects(selector: Any, *, found: bool) -> None:
    """A pod labelled app=a is found exactly when the cluster would find it."""
    assert selects(Field(selector), Field({"app": "a"})) is found


@pytest.mark.parametrize(
    ("selector", "some"),
    [
        ({"matchLabels": {"app": "a"}}, True),
        ({"matchLabels": {"app": ""}}, True),
        ({"matchLabels": {"app": UNKNOWN, "tier": "gpu"}}, True),
        ({"matchExpressions": [{"key": "app", "operator": "In", "values": ["a"]}]}, True),
        ({"matchExpressions": [{"key": "app", "operator": "Exists"}]}, True),
        ({"matchExpressions": [{"key": "x", "operator": "DoesNotExist"}, {"key": "app", "operator": "Exists"}]}, True),
        (None, False),
        ({}, False),
        ({"matchLabels": {}, "matchExpressions": []}, False),
        ({"matchLabels": {"app": UNKNOWN}}, False),
        ({"matchLabels": {"app": None}}, False),
        ({"matchExpressions": [{"key": "app", "operator": "NotIn", "values": ["a"]}]}, False),
        ({"matchExpressions": [{"key": "app", "operator": "DoesNotExist"}]}, False),
        ({"matchExpressions": [{"key": "app", "operator": "In", "values": []}]}, False),
        ({"matchExpressions": [{"key": "app", "operator": "In", "values": [UNKNOWN]}]}, False),
        ({"matchExpressions": [{"key": UNKNOWN, "operator": "Exists"}]}, False),
        (UNKNOWN, False),
    ],
)
def test_names_some(selector: Any, *, some: bool) -> None:
    """Only a demand for a label that is there narrows a selector; an unknown one may be any."""
    assert names_some(Field(selector)) is some
