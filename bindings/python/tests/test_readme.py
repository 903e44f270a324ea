# SPDX-License-Identifier: MIT
"""What the pages show is what comes of it."""

import doctest

import pytest
from conftest import HERE, ROOT


@pytest.mark.parametrize("page", [HERE.parent / "README.md", ROOT / "docs/python.md"], ids=str)
def test_examples(page):
    text = "\n".join(
        "" if line.startswith("```") else line for line in page.read_text().split("\n")
    )
    examples = doctest.DocTestParser().get_doctest(text, {}, page.name, str(page), 0)
    assert len(examples.examples) >= 5
    runner = doctest.DocTestRunner()
    told = []
    runner.run(examples, out=told.append)
    assert runner.failures == 0, "".join(told)
