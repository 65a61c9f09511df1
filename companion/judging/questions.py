"""Questions of ours, in parts that each have a rule: what no paper claims.

They are written like a paper's claims and before the runs that judge them, but all parts have the
role "beyond", there is no verdict on a paper, and nothing enters verdicts.csv.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from companion.judging.claims import LONGEST_CLAIM, Page, Part, Setting, answers_to


@dataclass(frozen=True)
class Question:
    """A question of ours, in parts that each have a rule.

    Parameters
    ----------
    name : str
    text : str
        What we ask and expect, in at most 120 words.
    parts : tuple of Part
        All of the role "beyond".
    refuted_by : str
        What would show that we are wrong.

    Raises
    ------
    ValueError
        If the text is too long, there is no part, or one speaks for a paper.
    """

    name: str
    text: str
    parts: tuple[Part, ...]
    refuted_by: str

    def __post_init__(self):
        if len(self.text.split()) > LONGEST_CLAIM:
            raise ValueError(f"question {self.name!r} must have at most {LONGEST_CLAIM} words")
        if not self.parts or any(part.role != "beyond" for part in self.parts):
            raise ValueError(f"question {self.name!r} must have parts, all with role='beyond'")

    def judge(self, evidence: Mapping[str, Any]) -> Page:
        """Return the answers to the parts; `evidence` has what each part's rule takes, by key.

        Raises
        ------
        ValueError
            If parts are missing or unknown, or a rule cannot take its evidence.
        """
        keys = [part.key for part in self.parts]
        if sorted(evidence) != sorted(keys):
            raise ValueError(f"{self.name}: evidence is for {sorted(evidence)}; parts are {keys}")
        lines = [f"**{self.name}.** {self.text}", ""]
        for answer in answers_to(self.name, self.parts, evidence, Setting("full")):
            lines.append(f"- {answer.sentence}. *{answer.part.rule.words}*")
        return Page("\n".join(lines))
