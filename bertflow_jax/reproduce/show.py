"""A reproduced table as text and as Markdown: scores, why some are missing, what made them."""

from collections.abc import Mapping
from typing import Any

from bertflow_jax.evaluation.comparable import MARK
from bertflow_jax.evaluation.table import COLUMNS, UNDEFINED, aligned
from bertflow_jax.reproduce.tables import Table

NOT_COMPUTED = "--"
_DECIMALS = 2
_DIGITS = 12  # of a digest, enough to tell two apart


def shown(table: Table, found: Mapping[str, Any]) -> list[str]:
    """Return the lines of the table as text, three a row: ours, published, difference."""
    return [table.title, *aligned(_lines(table, found)), *_marks(found), *reasons(found)]


def markdown(table: Table, found: Mapping[str, Any]) -> str:
    """Return the table as Markdown, with what made it below."""
    header, *body = _lines(table, found)
    lines = [f"# Table {table.number}: {table.title}", ""]
    lines += [f"| {' | '.join(header)} |", "|" + "---|" * len(header)]
    lines += [f"| {' | '.join(line)} |" for line in body]
    why = [*(f"\\{note}" for note in _marks(found)), *reasons(found)]
    if why:
        lines += ["", *(f"- {line}" for line in why)]
    return "\n".join([*lines, "", *_provenance(found)]) + "\n"


def reasons(found: Mapping[str, Any]) -> list[str]:
    """Return why scores are missing, every reason once with the rows and tasks it is of."""
    of: dict[str, dict[str, list[str]]] = {}
    for row, reason in found["skipped"].items():
        of.setdefault(reason, {}).setdefault(row, [])
    for row, missing in found["missing"].items():
        for task, reason in missing.items():
            of.setdefault(reason, {}).setdefault(row, []).append(COLUMNS.get(task, task))
    for row, cells in found["rows"].items():
        for task, cell in cells.items():
            if cell["ours"] is None:
                reason = f"undefined: {cell.get('reason', 'no score')}"
                of.setdefault(reason, {}).setdefault(row, []).append(COLUMNS.get(task, task))
    return [
        "not computed: "
        + "; ".join(" ".join([row, ", ".join(tasks)]).strip() for row, tasks in rows.items())
        + f": {reason}"
        for reason, rows in of.items()
    ]


def _marks(found: Mapping[str, Any]) -> list[str]:
    """Return what the marks of columns mean."""
    return [f"{MARK} {COLUMNS[task]}: {note}" for task, note in found["notes"].items()]


def _lines(table: Table, found: Mapping[str, Any]) -> list[list[str]]:
    marked = [COLUMNS.get(task, task) + MARK * (task in found["notes"]) for task in table.tasks]
    lines = [["", *marked]]
    for name, scores in found["rows"].items():
        for kind in ("ours", "published", "difference"):
            label = name if kind == "ours" else f"  {kind}"
            lines.append([label, *(_cell(scores.get(task), kind) for task in table.tasks)])
    return lines


def _cell(score: Mapping[str, Any] | None, kind: str) -> str:
    if score is None:
        return NOT_COMPUTED if kind == "ours" else ""
    value = score[kind]
    if value is None:
        return UNDEFINED if kind == "ours" else ""
    return f"{value:+z.{_DECIMALS}f}" if kind == "difference" else f"{value:z.{_DECIMALS}f}"


def _provenance(found: Mapping[str, Any]) -> list[str]:
    """Return the lines that say what it takes to get the same numbers again."""
    lines = ["| row | encoder | weights sha256 | pooling | seed | scored | version |"]
    lines.append("|" + "---|" * 7)
    for row, made in found["made"].items():
        encoder = made["encoder"]
        days = list(dict.fromkeys(date[:10] for date in made["dates"]))
        cells = (
            row,
            encoder["path"],
            encoder["weights_sha256"][:_DIGITS],
            encoder["pooling"],
            str(made["seed"]),
            " to ".join(days),
            ", ".join(made["versions"]),
        )
        lines.append(f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in cells)} |")
    settings, provenance = found["settings"], found["provenance"]
    changed = ", ".join(f"{name}={value}" for name, value in settings["set"].items())
    data = ", ".join(
        f"{COLUMNS[task]} {digest[:_DIGITS]}" for task, digest in settings["data"].items() if digest
    )
    lines += ["", f"- date: {found['date']}", f"- version: {provenance['version']}"]
    lines += [f"- --set: {changed or 'nothing'}", f"- data: {provenance['data_dir']}; {data}"]
    for name in ("nli", "corpus"):
        if provenance[name]:
            digests = settings[name] if isinstance(settings[name], list) else [settings[name]]
            short = ", ".join(digest[:_DIGITS] for digest in digests)
            lines.append(f"- --{name}: {provenance[name]}; {short}")
    return lines
