"""What the documents promise is held by a test that exists."""

import re

import pytest

from box import ROOT
from calls import REFUSED
from rows import ROWS

NAMED = re.compile(r"`(\w+\.py)::([^`]+)`")


@pytest.mark.parametrize("document", ["SPECIFICATION.md", "docs/threat-model.md"])
def test_every_test_that_is_named_exists(document):
    named = NAMED.findall((ROOT / document).read_text())
    assert named
    sentences = {row.sentence for row in ROWS} | {"…"}
    for file, name in named:
        if file == "rows.py":
            assert name in sentences
        else:
            suites = [path.read_text() for path in (ROOT / "conformance").glob(f"*/{file}")]
            assert any(f"def {name}(" in suite for suite in suites), f"{file}::{name}"


def test_the_number_of_refused_calls_is_the_one_that_is_promised():
    found = re.search(r"(\d+) dangerous ones", (ROOT / "SPECIFICATION.md").read_text())
    assert int(found[1]) == len(REFUSED)
