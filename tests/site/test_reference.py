"""Tables of docstrings as reStructuredText."""

from __future__ import annotations

from docs.site import reference


def turned(text):
    lines = text.split("\n")
    reference.as_rst(None, "module", "x", None, None, lines)
    return "\n".join(lines)


def test_a_markdown_table_becomes_a_list_table():
    made = turned("Text:\n\n| code | meaning |\n|------|---------|\n| `a`  | 2 * 3   |\n\nMore.")
    assert made.split("\n") == [
        "Text:",
        "",
        "",
        ".. list-table::",
        "   :header-rows: 1",
        "",
        "   * - code",
        "     - meaning",
        "   * - `a`",
        r"     - 2 \* 3",
        "",
        "",
        "More.",
    ]
