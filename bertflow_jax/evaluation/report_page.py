"""The HTML shell of a report: one self-contained page, readable from 400 to 1280 pixels and up."""

import base64
from collections.abc import Iterable, Sequence
from html import escape

_CSS = """
:root { color-scheme: light; }
* { box-sizing: border-box; }
body { margin: 0; background: #fff; color: #1c1c1c; line-height: 1.55;
  font: 17px/1.55 system-ui, -apple-system, "Segoe UI", "Helvetica Neue", Arial, sans-serif; }
main { max-width: 1080px; margin: 0 auto; padding: 2.5rem 1.25rem 4rem; }
h1 { font-size: 2rem; line-height: 1.2; margin: 0 0 .4rem; letter-spacing: -.01em; }
h2 { font-size: 1.3rem; line-height: 1.3; margin: 3rem 0 .4rem; padding-top: 1.2rem;
  border-top: 1px solid #ddd; }
p, ul { max-width: 68ch; margin: .5rem 0 1rem; overflow-wrap: anywhere; }
.lead { font-size: 1.2rem; }
.quiet { color: #555; font-size: .93rem; }
.scroll { overflow-x: auto; margin: .8rem 0 1rem; }
table { border-collapse: collapse; font-variant-numeric: tabular-nums; font-size: .95rem; }
th, td { padding: .38rem .8rem; text-align: right; white-space: nowrap; }
th:first-child, td:first-child { text-align: left; padding-left: 0; }
th { font-weight: 600; color: #444; }
thead th { border-bottom: 2px solid #1c1c1c; }
tbody tr + tr td, tbody tr + tr th { border-top: 1px solid #e6e6e6; }
tbody th { white-space: normal; min-width: 8.5rem; overflow-wrap: break-word; }
td.best { font-weight: 700; }
.panels { display: grid; gap: 1rem; margin-bottom: 1rem;
  grid-template-columns: repeat(auto-fit, minmax(min(100%, 400px), 1fr)); }
.panels img { display: block; width: 100%; max-width: 520px; height: auto; }
summary { cursor: pointer; font-weight: 600; }
table.facts { table-layout: fixed; width: 100%; font-size: .87rem; }
table.facts td { white-space: normal; overflow-wrap: anywhere; text-align: left;
  vertical-align: top; }
table.facts td:first-child { width: 40%; color: #555; padding-right: .8rem; }
@media (max-width: 600px) {
  body { font-size: 16px; }
  main { padding: 1.5rem .9rem 3rem; }
  h1 { font-size: 1.6rem; }
  th, td { padding: .35rem .55rem; }
}
@media print { main { max-width: none; padding: 0; } details { display: block; } }
"""


def page(title: str, body: Iterable[str]) -> str:
    """Return the whole page around pieces of HTML."""
    return "\n".join(
        [
            '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">',
            '<meta name="viewport" content="width=device-width, initial-scale=1">',
            '<link rel="icon" href="data:,">',
            f"<title>{escape(title)}</title>\n<style>{_CSS}</style>\n</head>\n<body>\n<main>",
            *body,
            "</main>\n</body>\n</html>\n",
        ]
    )


def heading(text: str) -> str:
    """Return a section heading."""
    return f"<h2>{escape(text)}</h2>"


def paragraph(text: str, kind: str = "") -> str:
    """Return a paragraph of plain text, of a class of the style sheet."""
    return f'<p class="{kind}">{escape(text)}</p>' if kind else f"<p>{escape(text)}</p>"


def table(header: Sequence[str], rows: Iterable[Sequence[str]], best: bool = False) -> str:
    """Return a table that scrolls by itself; `best` marks the highest number of each column."""
    lines = [list(row) for row in rows]
    highest = [_highest([line[column] for line in lines]) for column in range(len(header))]
    out = ['<div class="scroll"><table><thead><tr>']
    out += [f'<th scope="col">{escape(cell)}</th>' for cell in header]
    out.append("</tr></thead><tbody>")
    for line in lines:
        cells = [f'<th scope="row">{escape(line[0])}</th>']
        for column, cell in enumerate(line[1:], 1):
            mark = best and len(lines) > 1 and cell == highest[column]
            cells.append(f"<td{' class=best' if mark else ''}>{escape(cell)}</td>")
        out.append(f"<tr>{''.join(cells)}</tr>")
    return "\n".join([*out, "</tbody></table></div>"])


def _highest(cells: Sequence[str]) -> str:
    # A cell may hold a mean and its deviation.
    values = {cell: cell.split(" ")[0] for cell in cells}
    numbers = [
        cell for cell, value in values.items() if value.lstrip("-").replace(".", "", 1).isdigit()
    ]
    return max(numbers, key=lambda cell: float(values[cell]), default="")


def panels(images: Iterable[tuple[bytes, str]]) -> str:
    """Return SVG files side by side (below each other on a narrow screen), with their alt texts."""
    tags = []
    for data, alt in images:
        source = "data:image/svg+xml;base64," + base64.b64encode(data).decode("ascii")
        tags.append(f'<img src="{source}" alt="{escape(alt, quote=True)}">')
    return f'<div class="panels">{"".join(tags)}</div>'


def details(summary: str, body: str) -> str:
    """Return a part that opens on a click."""
    return f"<details><summary>{escape(summary)}</summary>{body}</details>"


def facts(values: Iterable[tuple[str, str]]) -> str:
    """Return a two-column table of names and values."""
    rows = "".join(f"<tr><td>{escape(k)}</td><td>{escape(v)}</td></tr>" for k, v in values)
    return f'<table class="facts"><tbody>{rows}</tbody></table>'
