"""Every attempt of every run on one axis of time."""

from unbroken.report.history import History
from unbroken.report.markup import Markup, join, percent, tag
from unbroken.report.records import MARKS
from unbroken.report.scale import TimeAxis
from unbroken.report.shapes import bar, edge, key, shape, swatch
from unbroken.report.spans import Attempt
from unbroken.report.tables import Column, table
from unbroken.report.text import clock, duration, plural

MOST_LANES = 60
MOST_SAVES = 200
"""Marks of checkpoints in a lane; more would be one solid bar."""
LANE_PX = 24
MOST_ROWS = 300

_KEY = (
    ("queued", "queued"),
    ("starting", "starting again"),
    ("running", "training"),
    ("replayed", "replayed: trained a second time"),
    ("lost", "lost: never saved"),
    ("saving", "checkpoint"),
    ("completed", "finished"),
    ("interrupted", "interrupted, saved"),
    ("killed", "ended without a word"),
    ("failed", "failed"),
    ("live", "running now"),
)


def timeline_section(histories: list[History]) -> tuple[str, str, Markup]:
    """A lane for each run; where there are too many, those with the most to tell."""
    begun = [history for history in histories if history.attempts or history.queued]
    if not begun:
        return "timeline", "Time line", tag("p", "No run has begun yet.")
    shown = choose(begun)
    axis = TimeAxis.over([interval for history in shown for interval in history.intervals])
    used: set[str] = {span.kind for history in shown for attempt in history.attempts for span in attempt.spans}
    used |= {attempt.ending for history in shown for attempt in history.attempts}
    used |= {"queued"} if any(history.queued for history in shown) else set()
    attempts = sum(len(history.attempts) for history in shown)
    chart = tag(
        "figure",
        key([(swatch(kind), meaning) for kind, meaning in _KEY if kind in used]),
        tag("div", _axis(axis), *(_lane(history, axis) for history in shown), class_="lanes"),
        tag(
            "figcaption",
            f"{_when(begun)}; {plural(attempts, 'attempt')} of {plural(len(shown), 'run')} shown. ",
            _hint(axis),
        ),
    )
    return "timeline", "Time line", join([_hidden(begun, shown), chart, _table(shown)])


def choose(histories: list[History], most: int = MOST_LANES) -> list[History]:
    """All, or those that failed or were interrupted most, in the order of the file."""
    if len(histories) <= most:
        return histories
    order = sorted(
        range(len(histories)),
        key=lambda index: (histories[index].record.state != "failed", -len(histories[index].attempts), index),
    )
    return [histories[index] for index in sorted(order[:most])]


def _hidden(begun: list[History], shown: list[History]) -> Markup | None:
    hidden = len(begun) - len(shown)
    if not hidden:
        return None
    text = f"{len(shown)} of {len(begun)} runs are drawn: those that failed or were started most often. "
    return tag("p", f"{text}The other {plural(hidden, 'run')} count in every number of this page.")


def _when(begun: list[History]) -> str:
    starts = [history.start for history in begun if history.start is not None]
    ends = [history.end for history in begun if history.end is not None]
    return f"{clock(min(starts))} to {clock(max(ends))}"


def _hint(axis: TimeAxis) -> str:
    left_out = sum(seconds for _, _, seconds in axis.breaks)
    return f"{duration(left_out)} in which nothing happened are left out (hatched)." if axis.breaks else ""


def _axis(axis: TimeAxis) -> Markup:
    marks = []
    for place, label in axis.ticks():
        of_day, _, date = label.partition("\n")
        content = join([of_day, tag("small", date) if date else None])
        marks.append(tag("span", content, style=f"left:{percent(place)}", class_=edge(place)))
    return tag("div", tag("span"), tag("div", *marks, class_="times"), class_="lane axis", aria_hidden="true")


def _lane(history: History, axis: TimeAxis) -> Markup:
    grid = [
        tag("line", x1=percent(place), x2=percent(place), y1="0", y2="100%", class_="grid") for place, _ in axis.ticks()
    ]
    gaps = [
        tag("rect", x=percent(left), y="0", width=percent(right - left), height="100%", class_="b-break")
        for left, right, _ in axis.breaks
    ]
    queued = [bar("queued", axis.at(span.start), axis.at(span.end), 7, 10) for span in history.queued]
    parts = [_attempt(attempt, axis, history) for attempt in history.attempts]
    marks = [
        shape(attempt.ending, percent(axis.at(attempt.end)), str(LANE_PX // 2), _title(attempt))
        for attempt in history.attempts
    ]
    state = history.record.state
    drawing = tag(
        "svg", *grid, *gaps, *queued, *parts, *marks, width="100%", height=LANE_PX, role="img",
        aria_label=f"{history.record.name}: {plural(len(history.attempts), 'attempt')}, {state}",
    )  # fmt: skip
    label = tag("span", tag("span", MARKS[state], class_=f"mark {state}", title=state), " ", history.record.name)
    return tag("div", tag("div", label, class_="who"), tag("div", drawing, class_="track"), class_="lane")


def _attempt(attempt: Attempt, axis: TimeAxis, history: History) -> Markup:
    bars = [
        bar(span.kind, axis.at(span.start), axis.at(span.end), 5, 14) for span in attempt.spans if span.kind != "saving"
    ]
    if not attempt.spans:
        bars = [bar("running", axis.at(attempt.start), axis.at(attempt.end), 5, 14)]
    saved = {
        round(axis.at(span.start) * MOST_SAVES): bar("saving", axis.at(span.start), axis.at(span.end), 2, 20)
        for span in attempt.spans
        if span.kind == "saving"
    }
    return tag("g", tag("title", _title(attempt)), *bars, *saved.values())


def _title(attempt: Attempt) -> str:
    steps = f", from step {attempt.first_step}" if attempt.first_step is not None else ""
    steps += f", saved at step {attempt.last_step}" if attempt.last_step is not None else ""
    begun = clock(attempt.start, "%Y-%m-%d %H:%M:%S UTC")
    return f"attempt {attempt.number}: {begun}, {duration(attempt.seconds)}{steps}: {attempt.reason}"


def _table(shown: list[History]) -> Markup:
    """The same as words, for who cannot see the chart or wants the job's number."""
    rows = [
        [
            history.record.name, attempt.number, clock(attempt.start, "%Y-%m-%d %H:%M:%S"), duration(attempt.seconds),
            "–" if attempt.first_step is None else attempt.first_step,
            "–" if attempt.last_step is None else attempt.last_step, attempt.job_id or "–", attempt.reason,
        ]
        for history in shown
        for attempt in history.attempts
    ]  # fmt: skip
    columns = [
        Column("run", "name"), Column("attempt", "num"), Column("began (UTC)"), Column("lasted", "num"),
        Column("from step", "num"), Column("saved at", "num"), Column("job"), Column("how it ended", "text"),
    ]  # fmt: skip
    rest = len(rows) - MOST_ROWS
    note = tag("p", f"{plural(rest, 'more attempt')} not listed.", class_="soft small") if rest > 0 else None
    return tag(
        "details", tag("summary", "Every attempt as a table"), table(columns, rows[:MOST_ROWS], cards=True), note
    )
