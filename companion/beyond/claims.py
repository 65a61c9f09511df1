"""What we expect of the combinations that no paper has, and the rules that decide it.

They are written like the papers' claims (`companion.judging.claims`) and before the runs that judge
them, but they are no claims of a paper: all parts have the role "beyond", there is no verdict on a
paper, and nothing enters verdicts.csv. Sizes were chosen on seeds from 100 on, which judge nothing.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from companion.judging.claims import LONGEST_CLAIM, Answer, Part
from companion.judging.rules import Above, Equal, Holds, NotBelow, Rule
from sflkit import checks

POINTS = dict(unit="points", scale=100.0)
SHARE = dict(unit="% of the rounds", scale=100.0)


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

    def judge(self, evidence: Mapping[str, Any]) -> Findings:
        """Return the answers to the parts; `evidence` has what each part's rule takes, by key.

        Raises
        ------
        ValueError
            If parts are missing or unknown, or a rule cannot take its evidence.
        """
        keys = [part.key for part in self.parts]
        if sorted(evidence) != sorted(keys):
            raise ValueError(f"{self.name}: evidence is for {sorted(evidence)}; parts are {keys}")
        answers = tuple(Answer(part, part.rule.judge(evidence[part.key])) for part in self.parts)
        return Findings(self, answers)


@dataclass(frozen=True, repr=False)
class Findings:
    """A question with the answers to its parts."""

    question: Question
    answers: tuple[Answer, ...]

    def _repr_markdown_(self) -> str:
        lines = [f"- {answer.sentence}. *{answer.part.rule.words}*" for answer in self.answers]
        return "\n".join([f"**{self.question.name}.** {self.question.text}", "", *lines])

    def __str__(self) -> str:
        return self._repr_markdown_()

    __repr__ = __str__


class Questions(Mapping):
    """The questions by name; an unknown name is refused with the known ones."""

    def __init__(self, *questions: Question):
        self._questions = {question.name: question for question in questions}

    def __getitem__(self, name: str) -> Question:
        return self._questions[checks.choice("question", name, self._questions)]

    def __iter__(self) -> Iterator[str]:
        return iter(self._questions)

    def __len__(self) -> int:
        return len(self._questions)


def _part(key: str, sentence: str, rule: Rule) -> Part:
    return Part(key, sentence, rule, role="beyond")


QUESTIONS = Questions(
    Question(
        "forgetting from streaming caches",
        "A client of a stream keeps a small cache and trains on what it holds. A sample can be "
        "forgotten exactly in two readings: withheld from training, as if it had arrived but never "
        "been used, or as if it had never arrived, so that the cache would have kept another one. "
        "We count both out in fractions for five cache rules. The second reading touches more "
        "mini-batches and should cost more. A cache leaves most samples unused, and so forgetting "
        "should cost less than with an archive of everything.",
        (
            _part(
                "withheld",
                "Withholding a sample has distance 0 from never using it, for every cache rule in "
                "every tiny federation",
                Equal(rtol=0.0, atol=1e-15),
            ),
            _part(
                "never_arrived",
                "Making a sample never arrive has distance 0 from a stream without it, for every "
                "cache rule in every tiny federation",
                Equal(rtol=0.0, atol=1e-15),
            ),
            _part(
                "unaware",
                "A history that does not know what the caches held forgets inexactly, under every "
                "rule in some federation",
                Holds(),
            ),
            _part(
                "dearer",
                "With DRSR, making a sample never arrive needs more rounds than withholding it",
                Above(smallest=0.01, **SHARE),
            ),
            _part(
                "cheaper",
                "Withholding a sample of an archive needs more rounds than one of a DRSR cache",
                Above(smallest=0.01, **SHARE),
            ),
        ),
        "one fraction above 0 for exactness; an interval below 0 for a cost",
    ),
    Question(
        "OSAFL on DRSR caches",
        "OSAFL's clients train on a FIFO store of their user's newest requests. A DRSR cache of "
        "the same size holds the requested files in their long-term shares. So what the clients "
        "hold should be nearer to what their users ask for in the long run, their updates should "
        "agree more, which OSAFL's scores measure, and the model should end better.",
        (
            _part(
                "nearer",
                "FIFO stores are farther from the users' long-term shares than DRSR caches",
                Above(smallest=0.002),
            ),
            _part(
                "scores",
                "The clients' mean score is higher with DRSR caches",
                Above(smallest=0.005),
            ),
            _part(
                "accuracy",
                "OSAFL ends with a higher test accuracy on DRSR caches than on FIFO stores",
                Above(smallest=0.01, **POINTS),
            ),
        ),
        "an interval below 0",
    ),
    Question(
        "old against new clients, with caches",
        "Data streams weighs old clients, which keep their samples, against new ones, which use "
        "each sample in one round only. Such samples make the training noisy, and so the old ones "
        "should count more than their number. Now new clients keep a cache of five rounds. They "
        "should learn more by themselves and need the old ones less, and the bound psi should name "
        "a better weight once its noise constant is divided by the square root of five.",
        (
            _part(
                "alone",
                "New clients alone end better with a DRSR cache than without one",
                Above(smallest=0.005, **POINTS),
            ),
            _part(
                "less_needed",
                "What the old clients add, at the weight that psi names, is less with DRSR caches",
                Above(smallest=0.005, **POINTS),
            ),
            _part(
                "reweighted",
                "With DRSR caches the weight that psi names for them ends above the one that it "
                "names without caches",
                Above(smallest=0.005, **POINTS),
            ),
            _part(
                "rule",
                "At that weight a DRSR cache is at most half a point worse than a FIFO cache",
                NotBelow(smallest=0.005, **POINTS),
            ),
        ),
        "an interval below 0",
    ),
)
