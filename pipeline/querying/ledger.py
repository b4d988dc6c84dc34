"""Where the intents and outcomes of calls are written: the answers of a run here, the sentinels in ``drift``."""

from collections.abc import Sequence
from typing import Any, Protocol

from adapters.base import NoAnswer, RawAnswer
from pipeline.querying.store import Question, Store


class Ledger(Protocol):
    """Keeps intents before a call and outcomes after it, both durably."""

    def begin(self, questions: Sequence[Question]) -> Sequence[Any]:
        """Write down that these are about to be asked; one intent each."""
        ...

    def finish(self, outcomes: Sequence[tuple[Any, RawAnswer | NoAnswer]]) -> None:
        """Write down what came of intents."""
        ...

    def withdraw(self, intents: Sequence[Any]) -> None:
        """Write down that these were not asked after all."""
        ...

    def refuse(self, question: Question, *, error: str) -> None:
        """Write down that this could not even be asked."""
        ...


class AnswerLedger:
    """The answers of a run, each kept under its key."""

    def __init__(self, store: Store, classifier: int) -> None:
        self._store, self._classifier = store, classifier

    def begin(self, questions: Sequence[Question]) -> Sequence[Any]:
        """See ``Ledger``."""
        return self._store.begin(questions, classifier=self._classifier)

    def finish(self, outcomes: Sequence[tuple[Any, RawAnswer | NoAnswer]]) -> None:
        """See ``Ledger``."""
        self._store.finish(outcomes, classifier=self._classifier)

    def withdraw(self, intents: Sequence[Any]) -> None:
        """See ``Ledger``."""
        self._store.withdraw(intents)

    def refuse(self, question: Question, *, error: str) -> None:
        """See ``Ledger``."""
        self._store.refuse(question, classifier=self._classifier, error=error)
