"""Answers of reviewers on the page of ``counterslope review``, about the faces and the edits."""

from collections.abc import Sequence
from pathlib import Path

from pipeline.analyses import sections as page
from pipeline.analyses.base import Analysis, Kept, Options, Result
from pipeline.review.answers import FILE, read_answers
from pipeline.run.folder import Run, settings_of
from pipeline.run.formats import decimal, measured
from pipeline.run.progress import Watch, unwatched
from pipeline.run.record import RunError
from pipeline.run.tables import read_frame

NO_ANSWERS = "{folder} has no answers of reviewers yet: collect them with `counterslope review {folder}`"
COLUMNS: tuple[page.Column, ...] = (
    ("Measure", "measure", "text"), ("Attribute", "attribute", "text"), ("Of", "sample", "text"),
    ("Reviewers", "reviewers", "count"), ("Items", "items", "count"), ("Answers", "answers", "count"),
    ("Figure", "figure", "decimal"), ("95 % interval", ("low", "high"), "interval"),
)  # fmt: skip


class ReviewAnalysis(Analysis[Options]):
    """Results of the review: agreement of reviewers, errors of the estimator, and visibility of the edits."""

    name = "review"
    command = "review-results"
    options = Options
    uses = ()
    examples = ("counterslope review-results runs/portraits",)

    def compute(self, source: Path, options: Options, *, watch: Watch = unwatched) -> Result:
        """Agreement of reviewers, estimates that they confirm, and edits that they recognise."""
        from pipeline.review.measures import review_measures

        settings_of(run := Run(source))
        answers = read_answers(source)
        if answers.empty:
            raise RunError(NO_ANSWERS.format(folder=source))
        reviewers, items = answers["reviewer"].nunique(), answers["item"].nunique()
        return Result(
            title=f"Answers of {reviewers} reviewer{'s' * (reviewers != 1)} to {items} pictures or pairs",
            tables={self.name: review_measures(answers, read_frame(run.path("faces.parquet")))},
            inputs=self.inputs(options, files=(FILE, "faces.parquet")),
        )

    def sections(self, kept: Kept) -> Sequence[page.Section]:
        """A section with a sentence for every figure, and the table."""
        from pipeline.review.measures import AGREEMENT

        rows = kept.tables[self.name]
        sentences = [
            f"{row['measure']}, {row['attribute']}: "
            + (decimal(row["figure"]) if row["measure"] == AGREEMENT else measured(row["figure"], "share"))
            + f" ({row['items']} items)."
            for row in rows.to_dict("records")
        ]
        section = page.Section(
            key=self.name,
            heading="What people see",
            explanation="Do reviewers perceive the faces as the estimator does, and do they see what the edits change?",
            parts=[page.Subsection("", sentences, tables=[page.Table("Answers of reviewers", rows, COLUMNS)])],
            caveats=[
                "Reviewers state what they perceive, not a person's identity. If most of them agree, their answer "
                "replaces the estimate wherever this report groups photos. Photos that they exclude are left out.",
            ],
        )
        return (section,)


REVIEW = ReviewAnalysis()
